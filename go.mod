module github.com/tensorfile/tensorfile

go 1.24
