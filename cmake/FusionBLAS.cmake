# OpenBLAS for the host runtime: the target FusionBLAS.
#
# The static library, in every preset: the tools then run on machines without
# OpenBLAS, and the kernels are the same everywhere. It holds the kernels of
# some twenty processor generations (25 MB) and chooses at run time. The runtime
# chooses itself, between two (lib/Runtime/Blas.cpp), so the tables of the
# others are replaced by their nearest relative and their kernels stay out:
# 4.5 MB.
find_library(FUSION_OPENBLAS NAMES libopenblas.a
  PATH_SUFFIXES openblas-pthread
  DOC "static OpenBLAS with DYNAMIC_ARCH (Debian: libopenblas-dev)" REQUIRED)
find_path(FUSION_OPENBLAS_INCLUDE NAMES cblas.h
  PATH_SUFFIXES x86_64-linux-gnu/openblas-pthread x86_64-linux-gnu REQUIRED)
find_package(Threads REQUIRED)

add_library(FusionBLAS INTERFACE)
target_include_directories(FusionBLAS SYSTEM INTERFACE ${FUSION_OPENBLAS_INCLUDE})
target_link_libraries(FusionBLAS INTERFACE ${FUSION_OPENBLAS} Threads::Threads m)

set(_relatives
  NEHALEM=PRESCOTT OPTERON=PRESCOTT OPTERON_SSE3=PRESCOTT BARCELONA=PRESCOTT
  BOBCAT=PRESCOTT BULLDOZER=PRESCOTT PILEDRIVER=PRESCOTT STEAMROLLER=PRESCOTT
  NANO=PRESCOTT ATOM=PRESCOTT CORE2=PRESCOTT PENRYN=PRESCOTT DUNNINGTON=PRESCOTT
  SANDYBRIDGE=PRESCOTT EXCAVATOR=HASWELL ZEN=HASWELL COOPERLAKE=SKYLAKEX)
foreach(_relative ${_relatives})
  string(REPLACE "=" ";" _relative ${_relative})
  list(GET _relative 0 _from)
  list(GET _relative 1 _to)
  target_link_options(FusionBLAS INTERFACE
    "LINKER:--defsym=gotoblas_${_from}=gotoblas_${_to}")
endforeach()
target_link_options(FusionBLAS INTERFACE LINKER:--gc-sections)
