# Writes the texts that generated code embeds (src/codegen/embedded.h) as a C file: each header as one
# string, its include lines left out, because the pieces are pasted one after another, and its comments and indentation
# too, because only a compiler reads it.
# usage: cmake -D OUT=file.c -D SOURCE=src-folder -D HEADERS=a.h,b.h -P CairnEmbed.cmake
string(REPLACE "," ";" headers "${HEADERS}")
set(text "/* Written by cmake/CairnEmbed.cmake. */\n#include \"codegen/embedded.h\"\n\n")
string(APPEND text "const cni_embedded cni_embedded_texts[] = {\n")
foreach(header IN LISTS headers)
  file(READ ${SOURCE}/${header} body)
  string(REGEX REPLACE "\n *#include[^\n]*" "" body "${body}")
  string(REGEX REPLACE "/\\*([^*]|\\*+[^*/])*\\*+/" "" body "${body}")
  string(REGEX REPLACE "[ \n]*\n *" "\n" body "${body}")
  string(REPLACE "\\" "\\\\" body "${body}")
  string(REPLACE "\"" "\\\"" body "${body}")
  string(REPLACE "\n" "\\n\"\n  \"" body "${body}")
  string(APPEND text "{\"${header}\",\n  \"${body}\"},\n")
endforeach()
string(APPEND text "{0, 0}};\n")
file(WRITE ${OUT} "${text}")
