# The optional parts of a build: each is in it or left out, and says with what or why.
#
#   tutti_part(NAME TITLE IN WORDS)    e.g. tutti_part(ucx "transport ucx" IN "UCX")
#   tutti_part(NAME TITLE OUT REASON)  e.g. tutti_part(ucx "transport ucx" OUT "UCX was not found (package libucx-dev)")
#
# tutti_report_parts() prints them at the end of the configuration. It writes them to parts.txt in the build folder, one a
# line, `in` or `out`, name, title and words with tabs between, for tools/test; and to generated/build_parts.def, which the
# library compiles, for `tutti info` and for error texts.
function(tutti_part name title state words)
  set_property(GLOBAL APPEND PROPERTY TUTTI_PARTS ${name})
  foreach(field title state words)
    set_property(GLOBAL PROPERTY TUTTI_PART_${name}_${field} "${${field}}")
  endforeach()
endfunction()

# tutti_search_again(VARIABLES...): forgets results of find_path and find_library that are no longer there.
macro(tutti_search_again)
  foreach(variable ${ARGN})
    if(DEFINED ${variable} AND NOT EXISTS "${${variable}}")
      unset(${variable} CACHE)
    endif()
  endforeach()
endmacro()

function(tutti_report_parts)
  get_property(parts GLOBAL PROPERTY TUTTI_PARTS)
  set(lines "")
  set(table "")
  message(STATUS "Parts of this build:")
  foreach(name IN LISTS parts)
    foreach(field title state words)
      get_property(${field} GLOBAL PROPERTY TUTTI_PART_${name}_${field})
    endforeach()
    string(TOLOWER ${state} state)
    string(APPEND lines "${state}\t${name}\t${title}\t${words}\n")
    string(SUBSTRING "${state} " 0 3 column)
    message(STATUS "  ${column}  ${title}: ${words}")
    string(COMPARE EQUAL ${state} in is_in)
    string(APPEND table "BUILD_PART(\"${name}\", ${is_in}, \"${words}\")\n")
  endforeach()
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/parts.txt CONTENT "${lines}" @ONLY)
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/generated/build_parts.def CONTENT "${table}" @ONLY)
endfunction()
