# The house's build rules in one place: warnings are errors, sanitizers reach everything but the static programs.

set(HITCHRAIL_WARNINGS -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 reports assignments of string literals to std::string as overlapping copies (its bug 105329).
  list(APPEND HITCHRAIL_WARNINGS $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
endif()

function(hitchrail_compile_options target)
  target_compile_options(${target} PRIVATE ${HITCHRAIL_WARNINGS} -fstack-protector-strong)
  # -O0 would make _FORTIFY_SOURCE itself a warning.
  target_compile_definitions(${target} PRIVATE $<$<NOT:$<CONFIG:Debug>>:_FORTIFY_SOURCE=2> _GNU_SOURCE)
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/host" "${PROJECT_SOURCE_DIR}/sdk/include")
endfunction()

function(hitchrail_sanitize target)
  if(HITCHRAIL_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${HITCHRAIL_SANITIZE} -fno-omit-frame-pointer
                                             -fno-sanitize-recover=all)
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      # With a sanitizer GCC 12 takes members of std::optional and std::regex for uninitialized (its bugs 80635, 105562);
      # the release build looks for what is.
      target_compile_options(${target} PRIVATE -Wno-maybe-uninitialized)
    endif()
    target_link_options(${target} PRIVATE -fsanitize=${HITCHRAIL_SANITIZE})
  endif()
  if(HITCHRAIL_FUZZ)
    target_compile_options(${target} PRIVATE -fsanitize=fuzzer-no-link,address,undefined -fno-omit-frame-pointer)
    target_link_options(${target} PRIVATE -fsanitize=address,undefined)
  endif()
endfunction()

# One service of host/: hitchrail_service(journal DEPENDS core SOURCES a.cpp b.cpp [LIBS x]) makes hitchrail_journal.
function(hitchrail_service name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS;LIBS" ${ARGN})
  add_library(hitchrail_${name} STATIC ${ARG_SOURCES})
  hitchrail_compile_options(hitchrail_${name})
  hitchrail_sanitize(hitchrail_${name})
  foreach(dep ${ARG_DEPENDS})
    target_link_libraries(hitchrail_${name} PUBLIC hitchrail_${dep})
  endforeach()
  target_link_libraries(hitchrail_${name} PUBLIC hitchrail_boost PRIVATE ${ARG_LIBS})
endfunction()

# Where programs that only other programs start, and adapters, are installed.
set(HITCHRAIL_PROGRAM_DESTINATION "${CMAKE_INSTALL_LIBEXECDIR}/hitchrail")
set(HITCHRAIL_PLUGIN_DESTINATION "lib/hitchrail/plugins")

# A program of ours: hitchrail_program(hitchrail-runner SOURCES … DEPENDS core … [LIBS x]).
function(hitchrail_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS;LIBS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  hitchrail_compile_options(${name})
  hitchrail_sanitize(${name})
  foreach(dep ${ARG_DEPENDS})
    target_link_libraries(${name} PRIVATE hitchrail_${dep})
  endforeach()
  target_link_libraries(${name} PRIVATE hitchrail_boost ${ARG_LIBS})
endfunction()

# A small static program (shim, init): no exceptions, no RTTI, no iostreams, never sanitized.
function(hitchrail_static_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  hitchrail_compile_options(${name})
  target_compile_options(${name} PRIVATE -fno-exceptions -fno-rtti -Os -ffunction-sections -fdata-sections)
  target_link_options(${name} PRIVATE -static -Wl,--gc-sections)
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
endfunction()

# An adapter plugin: one folder, one .so in build/plugins/, on the digest list of libraries enabled by default. With TEST it
# is a test's own: build/test-plugins/, never installed, never on the list.
function(hitchrail_plugin name)
  cmake_parse_arguments(ARG "TEST" "" "SOURCES" ${ARGN})
  add_library(${name} MODULE ${ARG_SOURCES})
  hitchrail_compile_options(${name})
  target_compile_options(${name} PRIVATE -fvisibility=hidden $<$<CXX_COMPILER_ID:GNU>:-fno-gnu-unique>)
  hitchrail_sanitize(${name})
  # One symbol leaves the library: hidden visibility alone lets instances of std templates out.
  set(map "${PROJECT_SOURCE_DIR}/sdk/cmake/hitchrail-adapter.map")
  target_link_options(${name} PRIVATE "-Wl,--version-script=${map}" -Wl,-z,noexecstack)
  if(NOT HITCHRAIL_FUZZ)  # clang leaves the sanitizer's runtime to the program that loads the library
    target_link_options(${name} PRIVATE -Wl,--no-undefined)
  endif()
  set_target_properties(${name} PROPERTIES PREFIX "" SKIP_BUILD_RPATH ON LINK_DEPENDS "${map}")
  if(ARG_TEST)
    set_target_properties(${name} PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/test-plugins")
  else()
    set_target_properties(${name} PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/plugins")
    set_property(GLOBAL APPEND PROPERTY HITCHRAIL_PLUGINS ${name})
    install(TARGETS ${name} LIBRARY DESTINATION ${HITCHRAIL_PLUGIN_DESTINATION})
  endif()
endfunction()

# Unit tests of one service: hitchrail_unit_test(core SOURCES … DEPENDS core) makes and registers unit_core.
function(hitchrail_unit_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS;LIBS" ${ARGN})
  add_executable(unit_${name} ${ARG_SOURCES})
  hitchrail_compile_options(unit_${name})
  hitchrail_sanitize(unit_${name})
  foreach(dep ${ARG_DEPENDS})
    target_link_libraries(unit_${name} PRIVATE hitchrail_${dep})
  endforeach()
  target_link_libraries(unit_${name} PRIVATE hitchrail_boost hitchrail_catch_main ${ARG_LIBS})
  target_include_directories(unit_${name} PRIVATE "${PROJECT_SOURCE_DIR}/tests")
  target_compile_definitions(unit_${name} PRIVATE HITCHRAIL_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
                                                  HITCHRAIL_BINARY_DIR="${CMAKE_BINARY_DIR}")
  add_test(NAME unit_${name} COMMAND unit_${name})
  set_tests_properties(unit_${name} PROPERTIES TIMEOUT 300)
endfunction()

# Every target below these folders, for building the product without the tests: ninja hitchrail_product.
function(hitchrail_collect_targets out)
  set(found "")
  foreach(dir ${ARGN})
    get_property(targets DIRECTORY "${dir}" PROPERTY BUILDSYSTEM_TARGETS)
    get_property(below DIRECTORY "${dir}" PROPERTY SUBDIRECTORIES)
    hitchrail_collect_targets(more ${below})
    list(APPEND found ${targets} ${more})
  endforeach()
  set(${out} ${found} PARENT_SCOPE)
endfunction()
