package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/tensorfile/tensorfile/internal/fb"
)

var kinds = [...]string{"Scalar", "String", "Child", "Union", "Scalars", "Tables", "Strings"}

var types = [...]string{"None", "Tag", "Bool", "Int8", "Uint8", "Int16", "Uint16", "Int32", "Uint32", "Int64", "Uint64", "Float32", "Float64"}

// print writes the schema as Go: the tables, their numbers, the slots of all fields,
// and the alignments required by force_align (which flatc's builders ignore).
func (s *parsed) print(w io.Writer, pkg string) {
	fmt.Fprintf(w, "package %s\n\n", pkg)
	fmt.Fprint(w, "import \"github.com/tensorfile/tensorfile/internal/fb\"\n\n")
	fmt.Fprint(w, "// Numbers of the tables in Schema.\nconst (\n")
	for i, t := range s.Tables {
		fmt.Fprintf(w, "Table%s = %d\n", t.Name, i)
	}
	if len(s.Unions) > 0 {
		fmt.Fprint(w, ")\n\n// Numbers of the unions in Schema.\nconst (\n")
		for i, u := range s.Unions {
			fmt.Fprintf(w, "Union%s = %d\n", u.Name, i)
		}
	}
	fmt.Fprint(w, ")\n\n// Positions of the fields in the vtables.\nconst (\n")
	for _, t := range s.Tables {
		for _, f := range t.Fields {
			fmt.Fprintf(w, "Slot%s%s = %d\n", t.Name, camel(f.Name), f.Slot)
		}
	}
	fmt.Fprint(w, ")\n\n")
	if aligns := s.with("force_align"); len(aligns) > 0 {
		fmt.Fprint(w, "// Alignments in bytes that the schema asks of vectors.\nconst (\n")
		for _, a := range aligns {
			fmt.Fprintf(w, "Align%s%s = %s\n", a.table, camel(a.field), a.value)
		}
		fmt.Fprint(w, ")\n\n")
	}
	fmt.Fprint(w, "// Schema describes the tables of this package to the verifier. It is never changed.\nvar Schema = fb.Schema{\nTables: []fb.Table{\n")
	for i, t := range s.Tables {
		fmt.Fprintf(w, "%d: {Name: %q", i, t.Name)
		if len(t.Fields) > 0 {
			fmt.Fprint(w, ", Fields: []fb.Field{\n")
			for _, f := range t.Fields {
				fmt.Fprintf(w, "{Name: %q, Slot: %d, Kind: fb.%s", f.Name, f.Slot, kinds[f.Kind])
				if f.Type != fb.None {
					fmt.Fprintf(w, ", Type: fb.%s, Size: %d", types[f.Type], f.Size)
				}
				if f.Required {
					fmt.Fprint(w, ", Required: true")
				}
				switch f.Kind {
				case fb.Child, fb.Tables:
					fmt.Fprintf(w, ", Index: Table%s", s.Tables[f.Index].Name)
				case fb.Union:
					fmt.Fprintf(w, ", Index: Union%s", s.Unions[f.Index].Name)
				}
				if f.Optional {
					fmt.Fprint(w, ", Optional: true")
				}
				if f.Default != 0 {
					fmt.Fprintf(w, ", Default: %d", f.Default)
				}
				if f.Enum != 0 {
					fmt.Fprintf(w, ", Enum: %d", f.Enum)
				}
				fmt.Fprint(w, "},\n")
			}
			fmt.Fprint(w, "}")
		}
		fmt.Fprint(w, "},\n")
	}
	fmt.Fprint(w, "},\n")
	if len(s.Unions) > 0 {
		fmt.Fprint(w, "Unions: []fb.UnionType{\n")
		for i, u := range s.Unions {
			fmt.Fprintf(w, "%d: {Name: %q, Members: []int16{-1, ", i, u.Name)
			for _, m := range u.Members[1:] {
				fmt.Fprintf(w, "Table%s, ", s.Tables[m].Name)
			}
			fmt.Fprint(w, "}},\n")
		}
		fmt.Fprint(w, "},\n")
	}
	if len(s.Enums) > 0 {
		fmt.Fprint(w, "Enums: []fb.EnumType{\n")
		for i, e := range s.Enums {
			fmt.Fprintf(w, "%d: {Name: %q, Names: %#v},\n", i, e.Name, e.Names)
		}
		fmt.Fprint(w, "},\n")
	}
	fmt.Fprint(w, "}\n")
}

// printEnum writes the values of an enum as constants of another type, for a package
// that gives them out.
func (s *parsed) printEnum(w io.Writer, e exported) error {
	for _, x := range s.Enums {
		if x.Name != e.enum {
			continue
		}
		fmt.Fprintf(w, "package %s\n\n// %s\nconst (\n", e.pkg, e.doc)
		for i, name := range x.Names {
			fmt.Fprintf(w, "%s%s %s = %d\n", e.prefix, name, e.typ, i)
		}
		fmt.Fprint(w, ")\n")
		return nil
	}
	return fmt.Errorf("no enum %s without gaps", e.enum)
}

// with returns the attributes that have one of the keys, in the order of the schema.
func (s *parsed) with(keys ...string) (list []attribute) {
	for _, a := range s.attributes {
		if slices.Contains(keys, a.key) {
			list = append(list, a)
		}
	}
	return list
}

// printFacts writes the attributes with the keys of f as a map, a field a line.
func (s *parsed) printFacts(w io.Writer, f facts) {
	fmt.Fprintf(w, "package %s\n\n// %s\nvar %s = map[string]%s{\n", f.pkg, f.doc, f.name, f.typ)
	list := s.with(f.keys...)
	for i, a := range list {
		if i == 0 || list[i-1].table != a.table || list[i-1].field != a.field {
			fmt.Fprintf(w, "\"%s.%s\": {", a.table, a.field)
		}
		fmt.Fprintf(w, "%s: %s, ", a.key, a.value)
		if i == len(list)-1 || list[i+1].table != a.table || list[i+1].field != a.field {
			fmt.Fprint(w, "},\n")
		}
	}
	fmt.Fprint(w, "}\n")
}

// printWalk writes a function for every table that calls all of its accessors and goes
// down into its children.
func (s *parsed) printWalk(w io.Writer, pkg string) {
	fmt.Fprint(w, "package fbtest\n\nimport (\nflatbuffers \"github.com/google/flatbuffers/go\"\n\n")
	fmt.Fprintf(w, "\"github.com/tensorfile/tensorfile/schema/%s\"\n)\n", pkg)
	if len(s.Unions) == 0 {
		fmt.Fprint(w, "\nvar _ flatbuffers.UOffsetT\n")
	}
	for _, t := range s.Tables {
		fmt.Fprintf(w, "\nfunc (w *Walk) %s%s(x *%s.%s) {\n", pkg, t.Name, pkg, t.Name)
		for i, f := range t.Fields {
			name := camel(f.Name)
			switch f.Kind {
			case fb.Scalar:
				fmt.Fprintf(w, "_ = x.%s()\n", name)
			case fb.String:
				fmt.Fprintf(w, "w.bytes(x.%s())\n", name)
			case fb.Child:
				fmt.Fprintf(w, "if c := x.%s(nil); c != nil {\nw.%s%s(c)\n}\n", name, pkg, s.Tables[f.Index].Name)
			case fb.Scalars:
				fmt.Fprintf(w, "for i := range w.n(x.%sLength()) {\n_ = x.%s(i)\n}\n", name, name)
				if f.Type == fb.Uint8 {
					fmt.Fprintf(w, "w.bytes(x.%sBytes())\n", name)
				}
			case fb.Strings:
				fmt.Fprintf(w, "for i := range w.n(x.%sLength()) {\nw.bytes(x.%s(i))\n}\n", name, name)
			case fb.Tables:
				child := s.Tables[f.Index].Name
				fmt.Fprintf(w, "for i := range w.n(x.%sLength()) {\nvar c %s.%s\nx.%s(&c, i)\nw.%s%s(&c)\n}\n", name, pkg, child, name, pkg, child)
			case fb.Union:
				fmt.Fprintf(w, "var t%d flatbuffers.Table\nif x.%s(&t%d) {\nswitch x.%sType() {\n", i, name, i, name)
				for tag, m := range s.Unions[f.Index].Members {
					if m >= 0 {
						child := s.Tables[m].Name
						fmt.Fprintf(w, "case %d:\nvar c %s.%s\nc.Init(t%d.Bytes, t%d.Pos)\nw.%s%s(&c)\n", tag, pkg, child, i, i, pkg, child)
					}
				}
				fmt.Fprint(w, "}\n}\n")
			}
		}
		fmt.Fprint(w, "}\n")
	}
}

// camel spells a field as flatc spells its accessor.
func camel(s string) string {
	parts := strings.Split(s, "_")
	for i, p := range parts {
		if p != "" {
			parts[i] = strings.ToUpper(p[:1]) + p[1:]
		}
	}
	return strings.Join(parts, "")
}
