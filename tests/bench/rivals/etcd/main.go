// One member of an etcd group, or its client:
//
//	etcd member OWN FOLDER synced|written NAME=HOST:PEER_PORT:CLIENT_PORT...
//	etcd client HOST:PORT
//
// The server's settings as they are, but for a quota that no measurement fills. `written` is its
// UnsafeNoFsync. The client is etcd's own over one connection; each caller puts to its own key.
package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"bench/rivals/kit"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
)

const (
	patience   = 10 * time.Second
	quotaBytes = 8 << 30
)

func member(own, folder, durability string, members []string) error {
	config := embed.NewConfig()
	config.Name, config.Dir = own, folder
	config.LogLevel = "error"
	config.LogOutputs = []string{"stderr"}
	config.UnsafeNoFsync = durability == "written"
	config.QuotaBackendBytes = quotaBytes
	var cluster []string
	for _, each := range members {
		name, place, _ := strings.Cut(each, "=")
		parts := strings.Split(place, ":")
		peer := url.URL{Scheme: "http", Host: parts[0] + ":" + parts[1]}
		cluster = append(cluster, name+"="+peer.String())
		if name == own {
			client := url.URL{Scheme: "http", Host: parts[0] + ":" + parts[2]}
			config.ListenPeerUrls, config.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
			config.ListenClientUrls, config.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
		}
	}
	config.InitialCluster = strings.Join(cluster, ",")
	node, err := embed.StartEtcd(config)
	if err != nil {
		return err
	}
	status := func() kit.Status {
		server := node.Server
		leads := server.Leader() == server.MemberID()
		return kit.Status{Leads: leads, End: server.AppliedIndex()}
	}
	kit.Obey(status, func(int, []byte) error { return fmt.Errorf("ask the client") })
	return nil
}

func client(address string) error {
	to, err := clientv3.New(clientv3.Config{Endpoints: []string{address}, DialTimeout: patience})
	if err != nil {
		return err
	}
	put := func(caller int, body []byte) error {
		limited, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_, err := to.Put(limited, fmt.Sprintf("caller-%04d", caller), string(body))
		return err
	}
	kit.Obey(func() kit.Status { return kit.Status{} }, put)
	return to.Close()
}

func main() {
	words, err := os.Args[1:], fmt.Errorf("usage: etcd member|client ...")
	switch {
	case len(words) >= 5 && words[0] == "member":
		err = member(words[1], words[2], words[3], words[4:])
	case len(words) == 2 && words[0] == "client":
		err = client(words[1])
	}
	if err != nil {
		kit.Fail(err)
	}
}
