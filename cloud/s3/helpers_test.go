package s3

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tensorfile/tensorfile/cloud/internal/storetest"
)

// The helpers of tests in several files.

const (
	testID     = "AKIDEXAMPLE"
	testSecret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
)

func start(t *testing.T, region, token string) *storetest.Server {
	s := storetest.Start(t, storetest.Objects("/bucket/"))
	s.List = listing(s, "bucket")
	s.Check = func(w http.ResponseWriter, r *http.Request) bool {
		if code := signatureError(r, region, testSecret, token); code != "" {
			w.Header().Set("X-Amz-Bucket-Region", region)
			storetest.Fail(w, http.StatusForbidden, code)
			return false
		}
		return true
	}
	return s
}

// signatureError reports how a request is not signed as AWS's Signature Version 4
// prescribes.
func signatureError(r *http.Request, region, secret, token string) string {
	rest, ok := strings.CutPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 ")
	fields := map[string]string{}
	for _, f := range strings.Split(rest, ", ") {
		k, v, _ := strings.Cut(f, "=")
		fields[k] = v
	}
	date := r.Header.Get("X-Amz-Date")
	at, err := time.Parse("20060102T150405Z", date)
	if !ok || err != nil || time.Since(at).Abs() > 15*time.Minute {
		return "RequestTimeTooSkewed"
	}
	scope := date[:8] + "/" + region + "/s3/aws4_request"
	if fields["Credential"] != testID+"/"+scope || r.Header.Get("X-Amz-Security-Token") != token {
		return "InvalidAccessKeyId"
	}
	signed := strings.Split(fields["SignedHeaders"], ";")
	for _, name := range []string{"Range", "If-Match", "X-Amz-Date", "X-Amz-Content-Sha256"} {
		if r.Header.Get(name) != "" && !slices.Contains(signed, strings.ToLower(name)) {
			return "UnsignedHeader" + name
		}
	}
	headers := ""
	for _, name := range signed {
		v := r.Header.Get(name)
		if name == "host" {
			v = r.Host
		}
		headers += name + ":" + strings.TrimSpace(v) + "\n"
	}
	encode := func(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }
	canonical := strings.Join([]string{r.Method, strings.ReplaceAll(encode(r.URL.Path), "%2F",
		"/"),
		strings.ReplaceAll(r.URL.Query().Encode(), "+",
			"%20"), headers, fields["SignedHeaders"], r.Header.Get("X-Amz-Content-Sha256")}, "\n")
	sum := sha256.Sum256([]byte(canonical))
	mac := func(key []byte, s string) []byte {
		h := hmac.New(sha256.New, key)
		h.Write([]byte(s))
		return h.Sum(nil)
	}
	key := []byte("AWS4" + secret)
	for _, s := range strings.Split(scope, "/") {
		key = mac(key, s)
	}
	want := mac(key, "AWS4-HMAC-SHA256\n"+date+"\n"+scope+"\n"+hex.EncodeToString(sum[:]))
	if fields["Signature"] != hex.EncodeToString(want) {
		return "SignatureDoesNotMatch"
	}
	return ""
}

// listing answers ListObjectsV2 of the bucket, two keys a page.
func listing(s *storetest.Server, bucket string) func(w http.ResponseWriter,
	r *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		q := r.URL.Query()
		if r.URL.Path != "/"+bucket+"/" || q.Get("list-type") != "2" {
			return false
		}
		var keys []string
		for name := range s.Objects {
			if key := strings.TrimPrefix(name, "/"+bucket+"/"); strings.HasPrefix(key,
				q.Get("prefix")) && key > q.Get("continuation-token") {
				keys = append(keys, key)
			}
		}
		slices.Sort(keys)
		truncated := len(keys) > 2
		keys = keys[:min(2, len(keys))]
		fmt.Fprintf(w, "<ListBucketResult><EncodingType>url</EncodingType><IsTruncated>%v</IsTruncated>", truncated)
		for _, k := range keys {
			fmt.Fprintf(w, `<Contents><Key>%s</Key><Size>%d</Size><ETag>"x"</ETag><LastModified>2026-01-02T03:04:05.678Z</LastModified></Contents>`,
				url.QueryEscape(k), len(s.Objects["/"+bucket+"/"+k]))
		}
		if truncated {
			fmt.Fprint(w, "<NextContinuationToken>")
			xml.EscapeText(w, []byte(keys[1]))
			fmt.Fprint(w, "</NextContinuationToken>")
		}
		fmt.Fprint(w, "</ListBucketResult>")
		return true
	}
}
