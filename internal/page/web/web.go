// Package web holds the page that shows a tensor file in the browser: HTML, CSS and
// JavaScript modules. Nothing is generated, and nothing is fetched from other sites. The
// static site (build.sh), tensorfile view and tensorfile report use the same files.
package web

import "embed"

// Files are the files of the page.
//
//go:embed index.html page.css *.js
var Files embed.FS
