// The launch functions of the Hopper ladder, one a step or variant of it.
#pragma once

#include "../../dispatch/kernel_table.h"

namespace vitamin::sm90_ladder {

int launch_v1_simt(const LaunchArgs& args);

int launch_v2_tma_wgmma(const LaunchArgs& args);
int launch_v2_tma_wgmma_sw64(const LaunchArgs& args);
int launch_v2_tma_wgmma_sw32(const LaunchArgs& args);
int launch_v2_tma_wgmma_sw0(const LaunchArgs& args);

int launch_v4_warp_specialized(const LaunchArgs& args);
int launch_v4_s2(const LaunchArgs& args);
int launch_v4_s3(const LaunchArgs& args);
int launch_v4_s4(const LaunchArgs& args);
int launch_v4_s5(const LaunchArgs& args);
int launch_v4_s6(const LaunchArgs& args);
int launch_v4_l2_none(const LaunchArgs& args);
int launch_v4_l2_64(const LaunchArgs& args);
int launch_v4_l2_128(const LaunchArgs& args);
int launch_v4_box_32(const LaunchArgs& args);
int launch_v4_box_64(const LaunchArgs& args);

int launch_v5_setmaxnreg(const LaunchArgs& args);

int launch_v6_persistent(const LaunchArgs& args);

int launch_v8_cluster(const LaunchArgs& args);
int launch_v8_cluster_1x2(const LaunchArgs& args);

int launch_v10_tma_store(const LaunchArgs& args);

int launch_v11_hilbert(const LaunchArgs& args);
int launch_v11_row(const LaunchArgs& args);
int launch_v11_grouped(const LaunchArgs& args);
int launch_v11_serpentine(const LaunchArgs& args);
int launch_v11_hilbert_nc(const LaunchArgs& args);
int launch_v11_row_nc(const LaunchArgs& args);
int launch_v11_grouped_nc(const LaunchArgs& args);
int launch_v11_serpentine_nc(const LaunchArgs& args);

}  // namespace vitamin::sm90_ladder
