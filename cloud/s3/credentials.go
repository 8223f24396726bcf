package s3

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"
)

// chain asks the providers that the environment configures, in the order of AWS's
// tools. It remembers which had credentials. A provider that is configured and fails is
// an error.
type chain struct {
	mu      sync.Mutex
	name    string // of the one that had credentials
	current credentials.Provider
	asked   bool
}

// aheadOfExpiry is how long before their end credentials are renewed.
const aheadOfExpiry = 5 * time.Minute

const anonymous = "no credentials, as none were found"

func (c *chain) RetrieveWithCredContext(cc *credentials.CredContext) (credentials.Value, error) {
	try := func(name string, p credentials.Provider) (credentials.Value, error) {
		v, err := p.RetrieveWithCredContext(cc)
		if err == nil && !v.SignerType.IsAnonymous() && v.AccessKeyID != "" {
			c.set(name, p)
		}
		return v, err
	}
	if v, err := try("credentials of AWS_ACCESS_KEY_ID", &credentials.EnvAWS{}); err == nil &&
		!v.SignerType.IsAnonymous() {
		return v, nil
	}
	v, err := try("credentials of the profile", &credentials.FileAWSCredentials{})
	switch {
	case err == nil && v.AccessKeyID != "":
		return v, nil
	case err != nil && os.Getenv("AWS_PROFILE") != "":
		// err may quote the file
		return v, errors.New("s3: the profile of AWS_PROFILE has no credentials")
	}
	for _, p := range []struct{ variable, name string }{
		{"AWS_WEB_IDENTITY_TOKEN_FILE", "credentials of the web identity"},
		{"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "credentials of the container"},
		{"AWS_CONTAINER_CREDENTIALS_FULL_URI", "credentials of the container"},
	} {
		if os.Getenv(p.variable) == "" {
			continue
		}
		v, err := try(p.name, &credentials.IAM{ExpiryWindow: aheadOfExpiry})
		if err != nil {
			return v, fmt.Errorf("s3: %s: %w", p.name, errors.Join(err, fs.ErrPermission))
		}
		return v, nil
	}
	if os.Getenv("AWS_EC2_METADATA_DISABLED") != "true" {
		instance := &credentials.IAM{ExpiryWindow: aheadOfExpiry,
			Client: &http.Client{Timeout: time.Second, Transport: &http.Transport{}}}
		if v, err := try("credentials of the instance", instance); err == nil {
			return v, nil
		}
	}
	c.set(anonymous, nil)
	return credentials.Value{SignerType: credentials.SignatureAnonymous}, nil
}

func (c *chain) set(name string, p credentials.Provider) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.name, c.current, c.asked = name, p, true
}

func (c *chain) Retrieve() (credentials.Value, error) { return c.RetrieveWithCredContext(nil) }

func (c *chain) IsExpired() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.asked || c.current != nil && c.current.IsExpired()
}

func (c *chain) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.name
}
