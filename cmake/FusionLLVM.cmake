# Finds MLIR and LLVM 22 as Debian packages them, and the tools that tests use.
find_package(MLIR REQUIRED CONFIG HINTS /usr/lib/llvm-22/lib/cmake/mlir)
if(NOT LLVM_VERSION_MAJOR EQUAL 22)
  message(FATAL_ERROR "expected LLVM/MLIR 22, found ${LLVM_PACKAGE_VERSION} in ${MLIR_DIR}")
endif()
message(STATUS "MLIR ${LLVM_PACKAGE_VERSION} from ${MLIR_DIR}")

list(APPEND CMAKE_MODULE_PATH ${MLIR_CMAKE_DIR} ${LLVM_CMAKE_DIR})
set(LLVM_RUNTIME_OUTPUT_INTDIR ${CMAKE_BINARY_DIR}/bin)
set(LLVM_LIBRARY_OUTPUT_INTDIR ${CMAKE_BINARY_DIR}/lib)
set(MLIR_BINARY_DIR ${CMAKE_BINARY_DIR})
include(TableGen)
include(AddLLVM)
include(AddMLIR)

set(FUSION_LLVM_BIN ${LLVM_TOOLS_BINARY_DIR})
set(FUSION_LLVM_INCLUDE_DIRS ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})

# Debian's MLIR archives name the shared libLLVM as what they need. A static
# build gives them the archives of LLVM instead.
if(FUSION_STATIC)
  llvm_map_components_to_libnames(_llvm_archives
    AsmParser AsmPrinter BitReader BitWriter Core DebugInfoDWARF FrontendOpenMP
    FrontendOffloading IPO IRReader InstCombine JITLink Linker MC NVPTX
    Object OrcJIT OrcTargetProcess Passes ScalarOpts SelectionDAG Support SupportLSP Target
    TargetParser TransformUtils Vectorize X86)
  add_library(FusionStaticLLVM INTERFACE)
  target_link_libraries(FusionStaticLLVM INTERFACE ${_llvm_archives})
  # The compression libraries too: the bundle needs nothing but glibc.
  find_library(FUSION_LIBZ NAMES libz.a REQUIRED)
  find_library(FUSION_LIBZSTD NAMES libzstd.a REQUIRED)
  get_property(_imported DIRECTORY PROPERTY IMPORTED_TARGETS)
  foreach(target ${_imported})
    get_target_property(links ${target} INTERFACE_LINK_LIBRARIES)
    if(target MATCHES "^MLIR" AND links)
      list(TRANSFORM links REPLACE "^LLVM$" FusionStaticLLVM)
      set_target_properties(${target} PROPERTIES INTERFACE_LINK_LIBRARIES "${links}")
    elseif(target MATCHES "^LLVM" AND links)
      list(TRANSFORM links REPLACE "^ZLIB::ZLIB$" "${FUSION_LIBZ}")
      list(TRANSFORM links REPLACE "^zstd::libzstd(_shared|_static)?$" "${FUSION_LIBZSTD}")
      set_target_properties(${target} PROPERTIES INTERFACE_LINK_LIBRARIES "${links}")
    endif()
  endforeach()
endif()
