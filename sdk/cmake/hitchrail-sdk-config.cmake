# find_package(hitchrail-sdk) gives hitchrail::sdk (headers) and hitchrail_add_adapter(name SOURCES a.c …), which makes
# name.so as the host wants it: one exported symbol, no search path, no lazy surprises.
get_filename_component(_hitchrail_sdk_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
set(HITCHRAIL_SDK_SCHEMA_DIR "${_hitchrail_sdk_prefix}/share/hitchrail/schemas")
set(_hitchrail_sdk_map "${CMAKE_CURRENT_LIST_DIR}/hitchrail-adapter.map")

if(NOT TARGET hitchrail::sdk)
  add_library(hitchrail::sdk INTERFACE IMPORTED)
  set_target_properties(hitchrail::sdk PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${_hitchrail_sdk_prefix}/include")
endif()

function(hitchrail_add_adapter name)
  cmake_parse_arguments(ARG "" "" "SOURCES" ${ARGN})
  add_library(${name} MODULE ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE hitchrail::sdk)
  set_target_properties(${name} PROPERTIES PREFIX "" SUFFIX ".so" POSITION_INDEPENDENT_CODE ON SKIP_BUILD_RPATH ON
                        INSTALL_RPATH "" C_VISIBILITY_PRESET hidden CXX_VISIBILITY_PRESET hidden
                        VISIBILITY_INLINES_HIDDEN ON LINK_DEPENDS "${_hitchrail_sdk_map}")
  # g++'s unique symbols would keep the library and whatever has the same template in one another's way.
  target_compile_options(${name} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fno-gnu-unique>)
  target_link_options(${name} PRIVATE "-Wl,--version-script=${_hitchrail_sdk_map}" -Wl,--no-undefined
                      -Wl,-z,noexecstack)
endfunction()
