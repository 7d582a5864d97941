# Packs the relocatable tools: OUT.tar.xz holds one folder with the binaries and
# the links beside them. Fails when it is larger than the bundle may be.
#
#   cmake -DBIN=build/PRESET/bin -DOUT=build/PRESET/fusion -DSOURCE=. -P cmake/Bundle.cmake
set(most_unpacked 100000000)
set(most_packed 30000000)

get_filename_component(folder ${OUT} DIRECTORY)
set(stage ${folder}/bundle/fusion)
file(REMOVE_RECURSE ${folder}/bundle)
file(MAKE_DIRECTORY ${stage}/bin)
file(COPY ${SOURCE}/LICENSE ${SOURCE}/README.md DESTINATION ${stage})
# Links stay links.
file(GLOB tools ${BIN}/fusion ${BIN}/fusion-*)
file(COPY ${tools} DESTINATION ${stage}/bin)

set(unpacked 0)
file(GLOB_RECURSE files ${stage}/*)
foreach(file ${files})
  if(NOT IS_SYMLINK ${file})
    file(SIZE ${file} size)
    math(EXPR unpacked "${unpacked} + ${size}")
  endif()
endforeach()
execute_process(
  COMMAND ${CMAKE_COMMAND} -E tar cJf ${OUT}.tar.xz fusion
  WORKING_DIRECTORY ${folder}/bundle
  COMMAND_ERROR_IS_FATAL ANY)
file(REMOVE_RECURSE ${folder}/bundle)
file(SIZE ${OUT}.tar.xz packed)
foreach(what unpacked packed)
  if(${what} GREATER ${most_${what}})
    file(REMOVE ${OUT}.tar.xz)
    message(FATAL_ERROR "the bundle has ${${what}} bytes ${what}, expected at most ${most_${what}}")
  endif()
endforeach()
message(STATUS "${OUT}.tar.xz: ${packed} bytes, ${unpacked} unpacked")
