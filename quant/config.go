package quant

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"strings"

	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

// A Config is the part of a model's configuration that describes quantisation. It only
// decides properties that the tensors do not show, such as the sizes of blocks and
// groups.
type Config struct {
	dtype    tensor.DType // of weights before they were quantised; Unknown if not given
	section  object       // quantization_config; nil if the model is not quantised
	method   string       // "" if there is no section
	fp4      bool         // DeepSeek-V4: experts are E2M1
	groups   []group      // of compressed-tensors
	dynamic  []override   // of GPTQ
	excluded *patterns
	layers   map[string]object // of ModelOpt, where layers differ
	problems []error
}

// A group is one of config_groups of compressed-tensors.
type group struct {
	targets *patterns
	weights object
	format  string
}

// An override is an entry of "dynamic" of GPTQ.
type override struct {
	module   *regexp.Regexp
	excludes bool
	values   object
}

// ParseConfig parses the config.json of a model, and after it hf_quant_config.json of
// ModelOpt or quantize_config.json of GPTQ, if there is one. It returns nil if none of
// them describes quantisation or has a dtype. It fails with tensor.ErrMalformed if a file
// is not a JSON object or has a duplicate key.
func ParseConfig(files ...[]byte) (*Config, error) {
	c := &Config{}
	for _, b := range files {
		top, err := parseObject(b)
		if err != nil {
			return nil, fmt.Errorf("%w: a configuration: %w", tensor.ErrMalformed, err)
		}
		if err := c.read(top); err != nil {
			return nil, fmt.Errorf("%w: a configuration: %w", tensor.ErrMalformed, err)
		}
	}
	if c.section == nil && c.dtype == tensor.Unknown {
		return nil, nil
	}
	return c, nil
}

// ReadConfig opens the files that [ParseConfig] takes, and parses them. open opens a file
// of the model's directory by name. Its error is returned unless it is fs.ErrNotExist.
func ReadConfig(open func(name string) (io.ReadCloser, error)) (*Config, error) {
	const maxConfig = 64 << 20
	var texts [][]byte
	for _, name := range []string{"config.json", "hf_quant_config.json",
		"quantize_config.json"} {
		f, err := open(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		b, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
		if f.Close(); err != nil {
			return nil, err
		}
		if len(b) > maxConfig {
			return nil, fmt.Errorf("%w: %s has more than %d bytes", tensor.ErrLimit, name,
				maxConfig)
		}
		texts = append(texts, b)
	}
	return ParseConfig(texts...)
}

// WithoutQuantization returns a config.json without its description of quantised weights,
// for a model whose weights are numbers. Other entries stay, in their order. It fails
// with tensor.ErrMalformed if config is not a JSON object.
func WithoutQuantization(config []byte) ([]byte, error) {
	if _, err := parseObject(config); err != nil {
		return nil, fmt.Errorf("%w: a configuration: %w", tensor.ErrMalformed, err)
	}
	var b bytes.Buffer
	var members func(raw json.RawMessage)
	members = func(raw json.RawMessage) {
		separator := byte('{')
		ordered(raw, func(key string, v json.RawMessage) {
			if key == "quantization_config" || key == "quantization" || key == "expert_dtype" {
				return
			}
			b.WriteByte(separator)
			separator = ','
			name, _ := json.Marshal(key)
			b.Write(name)
			b.WriteByte(':')
			if key == "text_config" && v[0] == '{' {
				members(v)
				return
			}
			b.Write(v)
		})
		if separator == '{' {
			b.WriteByte('{')
		}
		b.WriteByte('}')
	}
	members(config)
	var out bytes.Buffer
	if err := json.Indent(&out, b.Bytes(), "", "  "); err != nil {
		return nil, err
	}
	return append(out.Bytes(), '\n'), nil
}

// Method returns the method of quantisation that the configuration names, such as fp8; ""
// if it names none.
func (c *Config) Method() string {
	if c == nil {
		return ""
	}
	return c.method
}

// read adds the content of a file. It ignores values of another type than expected.
func (c *Config) read(top object) error {
	for _, o := range []object{top, top.object("text_config")} {
		name := optional[string](o, "dtype", "torch_dtype")
		if d, err := tensor.ParseDType(strings.TrimPrefix(name, "torch.")); err == nil &&
			c.dtype == tensor.Unknown {
			c.dtype = d
		}
		c.fp4 = c.fp4 || optional[string](o, "expert_dtype") == "fp4"
		for _, key := range []string{"quantization_config", "quantization"} {
			section, err := parseObject(o[key])
			if err != nil && err != errJSON {
				return fmt.Errorf("%s: %w", key, err)
			}
			if c.section == nil && len(section) > 0 {
				c.section = section
			}
		}
	}
	if c.section == nil && top.has("bits") && top.has("group_size") { // quantize_config.json
		c.section = top
		c.method = "gptq"
	}
	if c.section != nil && c.excluded == nil {
		c.readSection(c.section)
	}
	return nil
}

// readSection reads the description of quantised weights.
func (c *Config) readSection(s object) {
	if m := optional[string](s, "quant_method"); m != "" {
		c.method = strings.ToLower(m)
	} else if s.has("quant_algo") {
		c.method = "modelopt"
	} else if c.method == "" && (s.has("bits") || s.has("group_size")) {
		c.method = "mlx"
	}
	if strings.HasPrefix(c.method, "modelopt") {
		c.method = "modelopt"
	}
	var excluded []string
	for _, key := range []string{"ignore", "modules_to_not_convert", "ignored_layers",
		"exclude_modules"} {
		excluded = append(excluded, optional[[]string](s, key)...)
	}
	c.excluded = c.patterns(excluded)
	c.layers = map[string]object{}
	ordered(s["quantized_layers"], func(name string, raw json.RawMessage) {
		c.layers[name], _ = parseObject(raw)
	})
	ordered(s["config_groups"], func(_ string, raw json.RawMessage) {
		o, _ := parseObject(raw)
		g := group{weights: o.object("weights"), format: optional[string](o, "format")}
		if g.format == "" {
			g.format = optional[string](s, "format")
		}
		g.targets = c.patterns(optional[[]string](o, "targets"))
		c.groups = append(c.groups, g)
	})
	ordered(s["dynamic"], func(text string, raw json.RawMessage) {
		text, excludes := strings.CutPrefix(text, "-:")
		if len(c.dynamic) == maxPatterns {
			c.problem("dynamic has more than %d entries", maxPatterns)
			return
		}
		for _, re := range c.expression(nil, strings.TrimPrefix(text, "+:")) {
			values, _ := parseObject(raw)
			c.dynamic = append(c.dynamic, override{re, excludes, values})
		}
	})
}

// problem adds a finding about the configuration.
func (c *Config) problem(format string, args ...any) {
	c.problems = append(c.problems, fmt.Errorf(format, args...))
}

// patterns name modules: by their class, by name, by a glob, or by a regular expression
// that is matched from the start.
type patterns struct {
	names map[string]bool
	class bool // a class is named: files do not have the classes, so that all modules match
	globs []string
	exprs []*regexp.Regexp
}

const (
	// maxPatterns bounds the globs and regular expressions of one list.
	maxPatterns = 1000
	// maxModule bounds the names of modules that are matched.
	maxModule = 4096
)

// patterns sorts and compiles the patterns of a list.
func (c *Config) patterns(texts []string) *patterns {
	p := &patterns{names: map[string]bool{}}
	for _, text := range texts {
		expr, isExpr := strings.CutPrefix(text, "re:")
		switch {
		case len(p.globs)+len(p.exprs) >= maxPatterns:
			c.problem("more than %d patterns", maxPatterns)
			return p
		case isExpr:
			p.exprs = c.expression(p.exprs, expr)
		case strings.ContainsAny(text, "*?["):
			p.globs = append(p.globs, text)
		case text != "" && text[0] >= 'A' && text[0] <= 'Z' && !strings.Contains(text, "."):
			p.class = true
		case text != "":
			p.names[text] = true
		}
	}
	return p
}

// expression appends a regular expression of Python. If Go cannot compile it, that is a
// problem, and nothing is appended.
func (c *Config) expression(all []*regexp.Regexp, text string) []*regexp.Regexp {
	re, err := regexp.Compile("^(?:" + text + ")")
	if err != nil {
		c.problem("regular expression %s: %v", naming.Quote(text), err)
		return all
	}
	return append(all, re)
}

// match reports whether a name, a glob or an expression matches the module.
func (p *patterns) match(module string) bool {
	if len(module) > maxModule {
		return false
	}
	if p.names[module] {
		return true
	}
	for _, re := range p.exprs {
		if re.MatchString(module) {
			return true
		}
	}
	for _, glob := range p.globs {
		if ok, _ := path.Match(glob, module); ok {
			return true
		}
	}
	return false
}

// excludes reports whether the module, or one that it is part of, is on a list of modules
// that are not quantised. Such lists also have names without their first segments.
func (c *Config) excludes(module string) bool {
	if c == nil || c.excluded == nil || len(module) > maxModule {
		return false
	}
	if c.excluded.match(module) {
		return true
	}
	for i := range len(module) {
		if module[i] == '.' && (c.excluded.names[module[:i]] || c.excluded.names[module[i+1:]]) {
			return true
		}
	}
	return false
}

// is reports whether the method of the configuration is one of these.
func (c *Config) is(methods ...string) bool {
	if c == nil {
		return false
	}
	for _, m := range methods {
		if m != "" && c.method == m {
			return true
		}
	}
	return false
}

// quantised reports whether the configuration says that weights are quantised.
func (c *Config) quantised() bool { return c != nil && c.section != nil }

// get returns the section; nil if there is none.
func (c *Config) get() object {
	if c == nil {
		return nil
	}
	return c.section
}

// group returns the group of compressed-tensors for a module: a group with its name, else
// with an expression that matches it, else with a class.
func (c *Config) group(module string) *group {
	if !c.is("compressed-tensors") {
		return nil
	}
	for _, has := range []func(*patterns) bool{
		func(t *patterns) bool { return t.names[module] },
		func(t *patterns) bool { return t.match(module) },
		func(t *patterns) bool { return t.class },
	} {
		for i := range c.groups {
			if has(c.groups[i].targets) {
				return &c.groups[i]
			}
		}
	}
	return nil
}

// algorithm returns ModelOpt's algorithm for a module, such as NVFP4. isDefault reports
// whether it is the algorithm of all modules that are not named.
func (c *Config) algorithm(module string) (algorithm string, isDefault bool) {
	if !c.is("modelopt") {
		return "", false
	}
	if a := optional[string](c.layers[module], "quant_algo"); a != "" {
		return strings.ToUpper(a), false
	}
	return strings.ToUpper(optional[string](c.section, "quant_algo")), true
}

// maxGroup bounds the sizes of blocks and groups.
const maxGroup = 1 << 30

// blockSize returns the rows and columns of a block of FP8, false if the configuration
// does not have them.
func (c *Config) blockSize() (rows, cols int64, ok bool, err error) {
	if !c.is("fp8") {
		return 0, 0, false, nil
	}
	size, ok, err := get[[]int64](c.section, "weight_block_size")
	return checkBlock("weight_block_size", size, ok, err)
}

func checkBlock(key string, size []int64, ok bool, err error) (int64, int64, bool, error) {
	if !ok || err != nil {
		return 0, 0, ok, err
	}
	if len(size) != 2 || min(size[0], size[1]) < 1 || max(size[0], size[1]) > maxGroup {
		return 0, 0, true, fmt.Errorf("%s is %v", key, size)
	}
	return size[0], size[1], true, nil
}

// groupSize returns how many columns share a scale, false if o does not have the size.
// For a size of -1, all columns, it returns all, or fails if all is negative.
func groupSize(o object, all int64) (size int64, ok bool, err error) {
	size, ok, err = get[int64](o, "group_size", "q_group_size")
	switch {
	case !ok || err != nil:
		return 0, ok, err
	case size == -1 && all >= 0:
		return max(all, 1), true, nil
	case size < 1 || size > maxGroup:
		return 0, true, fmt.Errorf("group_size is %d", size)
	}
	return size, true, nil
}

var errBits = errors.New("the configuration does not say how many bits a weight has")

// bits returns the bits of a code. It fails if they are not one of the allowed numbers.
func bits(o object, allowed ...int64) (int64, error) {
	b, ok, err := get[int64](o, "bits", "num_bits", "w_bit")
	if err != nil {
		return 0, err
	}
	if !ok {
		return 0, errBits
	}
	for _, a := range allowed {
		if a == b {
			return b, nil
		}
	}
	return 0, fmt.Errorf("bits is %d", b)
}
