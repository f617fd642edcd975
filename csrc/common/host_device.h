// Lets index maps compile with a plain C++ compiler, where the tests check them exhaustively.
#pragma once

#ifdef __CUDACC__
#define VITAMIN_HD __host__ __device__ __forceinline__
#else
#define VITAMIN_HD inline
#endif
