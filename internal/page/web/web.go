// Package web holds the page that shows a tensor file in the browser: HTML, CSS and
// modules of JavaScript, without anything that is generated or fetched. The same files
// are the static site (build.sh), what tensorfile view serves, and a report.
package web

import "embed"

// Files are the files of the page.
//
//go:embed index.html page.css *.js
var Files embed.FS
