package az

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// signKey signs a request by Shared Key, as "Authorize with Shared Key" of
// Azure's REST reference prescribes for Blob Storage.
func signKey(req *http.Request, account string, key []byte) {
	req.Header.Set("X-Ms-Date", time.Now().UTC().Format(http.TimeFormat))
	h, length := req.Header, ""
	if req.ContentLength > 0 {
		length = strconv.FormatInt(req.ContentLength, 10)
	}
	lines := []string{req.Method, h.Get("Content-Encoding"), h.Get("Content-Language"), length,
		h.Get("Content-MD5"), h.Get("Content-Type"), "",
		h.Get("If-Modified-Since"), h.Get("If-Match"), h.Get("If-None-Match"),
		h.Get("If-Unmodified-Since"), h.Get("Range")}
	for _, name := range slices.Sorted(maps.Keys(h)) {
		if lower := strings.ToLower(name); strings.HasPrefix(lower, "x-ms-") {
			lines = append(lines, lower+":"+strings.TrimSpace(h.Get(name)))
		}
	}
	resource := "/" + account + req.URL.EscapedPath()
	query := map[string][]string{}
	for name, values := range req.URL.Query() {
		query[strings.ToLower(name)] = append(query[strings.ToLower(name)], values...)
	}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		slices.Sort(query[name])
		resource += "\n" + name + ":" + strings.Join(query[name], ",")
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(strings.Join(append(lines, resource), "\n")))
	signature := base64.StdEncoding.EncodeToString(mac.Sum(nil))
	h.Set("Authorization", "SharedKey "+account+":"+signature)
}
