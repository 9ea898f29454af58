# Warnings for our own targets; a warning is an error.
add_library(tutti_warnings INTERFACE)
target_compile_options(tutti_warnings INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wno-missing-field-initializers $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor> -Werror)
