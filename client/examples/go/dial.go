// SPDX-License-Identifier: Apache-2.0
// How to reach a server: in the clear, or with TLS as the environment says.
package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"log"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// A token goes with each call, and over TLS only.
type bearer string

func (token bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(token)}, nil
}
func (bearer) RequireTransportSecurity() bool { return true }

// TLS where PSCLIENT_TLS_CA names a file that says whom to believe; the names are those of
// libpsclient.
func dialOptions() []grpc.DialOption {
	ca := os.Getenv("PSCLIENT_TLS_CA")
	if ca == "" {
		return []grpc.DialOption{grpc.WithInsecure()}
	}
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	pem, err := os.ReadFile(ca)
	check(err)
	config.RootCAs.AppendCertsFromPEM(pem)
	if certificate := os.Getenv("PSCLIENT_TLS_CERT"); certificate != "" {
		pair, err := tls.LoadX509KeyPair(certificate, os.Getenv("PSCLIENT_TLS_KEY"))
		check(err)
		config.Certificates = []tls.Certificate{pair}
	}
	options := []grpc.DialOption{grpc.WithTransportCredentials(credentials.NewTLS(config))}
	if file := os.Getenv("PSCLIENT_TOKEN_FILE"); file != "" {
		token, err := os.ReadFile(file)
		check(err)
		options = append(options,
			grpc.WithPerRPCCredentials(bearer(bytes.TrimSpace(token))))
	}
	return options
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
