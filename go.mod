module github.com/tensorfile/tensorfile

go 1.24

require github.com/google/flatbuffers v25.12.19+incompatible

require golang.org/x/exp v0.0.0-20240719175910-8a7402abbf56
