# cmake -DSOURCE=folder -DHEADER=file -P embed.cmake: the page's files as arrays of bytes.
set(out "// Made by embed.cmake.\n#pragma once\n\n#include <string_view>\n\nnamespace slipstream::page_sources {\n")
foreach(pair "kDocument=index.html" "kStyle=style.css" "kScript=chat.js")
  string(REPLACE "=" ";" pair "${pair}")
  list(GET pair 0 name)
  list(GET pair 1 file)
  file(READ ${SOURCE}/${file} bytes HEX)
  string(REGEX REPLACE "(..)" "'\\\\x\\1'," bytes "${bytes}")
  string(APPEND out "inline constexpr char ${name}Bytes[] = {${bytes}0};\n"
                    "inline constexpr std::string_view ${name}(${name}Bytes, sizeof ${name}Bytes - 1);\n")
endforeach()
file(WRITE ${HEADER} "${out}}  // namespace slipstream::page_sources\n")
