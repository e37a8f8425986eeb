# Writes DIR/plugins.digests, a line "sha256:<hex> name.so" for each of FILES.
set(text "")
foreach(file ${FILES})
  file(SHA256 "${DIR}/${file}" digest)
  string(APPEND text "sha256:${digest} ${file}\n")
endforeach()
file(WRITE "${DIR}/plugins.digests" "${text}")
