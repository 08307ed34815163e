# Turns the comments of headers into those that Doxygen reads: the file's first ones into its description, those before a
# declaration into "///", and those behind one, with the lines that continue them, into "///<".
{
  at = match($0, /\/\/( |$)/)
  if (at == 0) { behind = 0; heads = 0; print; next }
  code = substr($0, 1, at - 1)
  text = substr($0, at + 2)
  gsub(/\\/, "\\\\\\\\", text)
  gsub(/[<>@#%]/, "\\\\&", text)
  is_alone = code ~ /^ *$/
  if (NR == 1) { heads = 1; print "/// \\file" }
  if (is_alone && heads) { print "///" text; next }
  heads = 0
  if (is_alone && behind == at) { print code "///<" text; next }
  behind = is_alone ? 0 : at
  print code (is_alone ? "///" : "///<") text
}
