"""Builds the op library (_ops, LibTorch stable ABI) and the planning module (_C, pybind11).

Environment: VITAMIN_ARCHS (default "80;90a;120"), VITAMIN_CPU_ONLY=1, CUDA_HOME, CXX, MAX_JOBS.
"""

import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import Extension, setup

ROOT = Path(__file__).resolve().parent
DEFAULT_ARCHS = "80;90a;120"
KNOWN_ARCHS = ("80", "86", "87", "89", "90", "90a", "100", "100a", "103", "103a", "120", "120a")
# The stable ABI of torch 2.11: one binary serves every torch from there on.
OLDEST_TORCH = (2, 11)
TORCH_TARGET_VERSION = "0x020b000000000000"


def stop(sentence):
    sys.exit(f"vitamin_hgemm: {sentence}")


def import_cpp_extension():
    try:
        import torch
        from torch.utils import cpp_extension
    except ImportError as error:
        stop(f"building needs torch >= 2.11 in this environment ({error}).")
    if tuple(int(part) for part in re.findall(r"\d+", torch.__version__)[:2]) < OLDEST_TORCH:
        stop(f"building needs torch >= 2.11, but torch {torch.__version__} is installed here.")
    return cpp_extension


def check_compiler():
    compiler = os.environ.get("CXX") or "c++"
    if shutil.which(compiler.split()[0]) is None:
        stop(f"there is no C++ compiler: '{compiler}' is not found; install g++ or set CXX.")


def find_cuda_home():
    """The CUDA toolkit to build with; None, and a note of what is left out, without one."""
    if os.environ.get("VITAMIN_CPU_ONLY") == "1":
        reason = "VITAMIN_CPU_ONLY=1 is set"
    else:
        on_path = shutil.which("nvcc")
        homes = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH")]
        homes.append(on_path and Path(on_path).resolve().parent.parent)
        for home in filter(None, [*homes, "/usr/local/cuda"]):
            # An nvcc on PATH may be a wrapper that lies outside of its toolkit.
            parts = ("bin/nvcc", "include/cuda_runtime_api.h")
            if all((Path(home) / part).exists() for part in parts):
                return str(home)
        reason = "no CUDA toolkit with nvcc is found (CUDA_HOME, CUDA_PATH, PATH, /usr/local/cuda)"
    print(f"vitamin_hgemm: {reason}: the GPU kernels are left out, only the CPU path is built.")
    return None


def read_archs():
    archs = re.findall(r"[^;,\s]+", os.environ.get("VITAMIN_ARCHS", "")) or DEFAULT_ARCHS.split(";")
    for arch in archs:
        if arch not in KNOWN_ARCHS:
            stop(f"VITAMIN_ARCHS names '{arch}'; wanted any of {', '.join(KNOWN_ARCHS)}.")
    return archs


def gencode_flags(archs):
    """Machine code for every architecture, and PTX of those whose PTX newer GPUs can take."""
    flags = []
    # Code for sm_90 beside that for sm_90a would be the same but for the kernels that it lacks.
    for arch in (a for a in archs if a != "90" or "90a" not in archs):
        code = f"sm_{arch}" if arch.endswith("a") else f"[sm_{arch},compute_{arch}]"
        flags.append(f"-gencode=arch=compute_{arch},code={code}")
    return flags


def nvcc_release(cuda_home):
    text = subprocess.check_output([Path(cuda_home) / "bin" / "nvcc", "--version"], text=True)
    return re.search(r"V(\d+\.\d+\.\d+)", text).group(1)


def sources(*patterns):
    return sorted(str(path.relative_to(ROOT)) for p in patterns for path in ROOT.glob(p))


def headers():
    """What a change of makes setuptools look again; ninja then knows which objects are stale."""
    return sources("csrc/**/*.h", "csrc/**/*.cuh")


def included(path, seen):
    """Adds to `seen` the project's headers that a source takes in, by way of others too."""
    for name in re.findall(r'^#include "(.+)"', path.read_text(), re.MULTILINE):
        header = (path.parent / name).resolve()
        if header.exists() and header not in seen:
            seen.add(header)
            included(header, seen)
    return seen


def drop_stale_objects(folder, files):
    """Removes the objects of .cu files that are older than a header: a CPU-only torch writes ninja
    rules without dependency files for nvcc."""
    for file in (file for file in files if file.endswith(".cu")):
        compiled = (Path(folder) / file).with_suffix(".o")
        if not compiled.exists():
            continue
        newest = max(h.stat().st_mtime for h in included(ROOT / file, {ROOT / file}))
        if newest > compiled.stat().st_mtime:
            compiled.unlink()


def op_sources(cuda):
    files = sources("csrc/**/*.cpp", *(["csrc/**/*.cu"] if cuda else []))
    return [file for file in files if not file.startswith("csrc/pybind/")]


def without_sm90a(cuda_home, archs):
    """The macro by which kernels that exist as sm_90a code only know that they were left out."""
    return [("VITAMIN_NO_SM90A", None)] if cuda_home and "90a" not in archs else []


def op_library(cpp_extension, cuda_home, archs):
    # The checks of torch's headers name their files: without the folders of this machine.
    torch_include = cpp_extension.include_paths()[0]
    no_paths = [f"-ffile-prefix-map={ROOT}/=", f"-ffile-prefix-map={torch_include}/="]
    cxx = ["-O3", "-g0", "-std=c++20", "-fvisibility=hidden", "-Wall", *no_paths]
    macros = [("TORCH_TARGET_VERSION", TORCH_TARGET_VERSION), ("USE_CUDA", None)]
    macros += without_sm90a(cuda_home, archs)
    arguments = {"cxx": cxx}
    include_dirs, library_dirs, libraries = [], [], []
    if cuda_home:
        macros.append(("VITAMIN_WITH_CUDA", None))
        include_dirs = [f"{cuda_home}/include"]
        library_dirs = [f"{cuda_home}/lib64"]
        libraries = ["cudart_static", "dl", "rt", "pthread"]
        arguments["nvcc"] = ["-O3", "-std=c++20", f"-Xcompiler={','.join(no_paths)}"]
        arguments["nvcc"] += gencode_flags(archs)
        # For other architectures the kernels of sm_90a are empty, and what they use is not.
        arguments["nvcc"].append("-diag-suppress=177")
        if tuple(map(int, nvcc_release(cuda_home).split("."))) >= (12, 9):
            arguments["nvcc"].append("--compress-mode=size")  # 48 MB become 8
    return cpp_extension.CppExtension(
        "vitamin_hgemm._ops",
        op_sources(cuda_home is not None),
        include_dirs=include_dirs,
        define_macros=macros,
        library_dirs=library_dirs,
        libraries=libraries,
        extra_compile_args=arguments,
        # A CUDA build of torch brings its CUDA symbols into scope through libtorch alone.
        extra_link_args=["-Wl,--no-as-needed", "-ltorch", "-Wl,--as-needed"],
        depends=headers(),
        py_limited_api=True,
    )


def planning_module(cpp_extension, cuda_home, archs):
    version = runpy.run_path(str(ROOT / "vitamin_hgemm" / "version.py"))["__version__"]
    macros = [
        ("VITAMIN_VERSION", f'"{version}"'),
        ("VITAMIN_ARCHS", f'"{";".join(archs) if cuda_home else ""}"'),
        ("VITAMIN_NVCC", f'"{nvcc_release(cuda_home) if cuda_home else ""}"'),
        *without_sm90a(cuda_home, archs),
    ]
    return Extension(
        "vitamin_hgemm._C",
        sources("csrc/dispatch/*.cpp", "csrc/pybind/*.cpp"),
        include_dirs=cpp_extension.include_paths(),  # torch ships pybind11's headers
        define_macros=macros,
        depends=headers(),
        extra_compile_args={"cxx": ["-O2", "-g0", "-std=c++20", "-fvisibility=hidden", "-Wall"]},
        language="c++",
    )


def build_command(cpp_extension):
    class Build(cpp_extension.BuildExtension):
        def build_extensions(self):
            check_compiler()
            os.environ.setdefault("MAX_JOBS", str(os.cpu_count()))
            # This environment's ninja, however it was entered: a ninja of another version than the
            # last one's distrusts its log and builds everything again.
            here = str(Path(sys.executable).parent)
            os.environ["PATH"] = os.pathsep.join([here, os.environ.get("PATH", os.defpath)])
            super().build_extensions()

        def build_extension(self, ext):
            # Objects stay between builds, those of an editable install too, and apart for each
            # extension: both compile csrc/dispatch, with different flags.
            self.build_temp = str(ROOT / "build" / "objects" / ext.name)
            drop_stale_objects(self.build_temp, ext.sources)
            super().build_extension(ext)

    return Build


def main():
    cpp_extension = import_cpp_extension()
    cuda_home = find_cuda_home()
    archs = read_archs()
    # torch looks for a toolkit only in its CUDA builds, and wants the version that it was built
    # with; the op library links the runtime statically and builds beside any torch.
    cpp_extension.CUDA_HOME = cuda_home
    cpp_extension._check_cuda_version = lambda *_: None
    setup(
        ext_modules=[
            op_library(cpp_extension, cuda_home, archs),
            planning_module(cpp_extension, cuda_home, archs),
        ],
        cmdclass={"build_ext": build_command(cpp_extension)},
    )


main()
