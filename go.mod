module github.com/tensorfile/tensorfile

go 1.24

require github.com/google/flatbuffers v25.12.19+incompatible
