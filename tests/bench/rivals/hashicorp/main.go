// One member of a hashicorp/raft group: hashicorp OWN FOLDER wal|bolt|bolt-nosync ADDRESS...
//
// The library with its own TCP transport and its settings as they are, but for snapshots, which it
// never takes here: the other groups that are measured take none either. The state machine does
// nothing. `wal` and `bolt` sync before a member vouches for an entry, `bolt-nosync` does not.
package main

import (
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"time"

	"bench/rivals/kit"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	wal "github.com/hashicorp/raft-wal"
)

const (
	connections = 3
	patience    = 10 * time.Second
)

type machine struct{}

func (machine) Apply(*raft.Log) any                  { return nil }
func (machine) Snapshot() (raft.FSMSnapshot, error)  { return nil, fmt.Errorf("never asked for") }
func (machine) Restore(snapshot io.ReadCloser) error { return snapshot.Close() }

// stores opens the log and the store of term and vote; the latter is bolt's with both.
func stores(folder, kind string) (raft.LogStore, raft.StableStore, error) {
	options := raftboltdb.Options{
		Path:   filepath.Join(folder, "bolt"),
		NoSync: kind == "bolt-nosync",
	}
	bolt, err := raftboltdb.New(options)
	if err != nil || kind != "wal" {
		return bolt, bolt, err
	}
	segments := filepath.Join(folder, "wal")
	if err := os.MkdirAll(segments, 0o755); err != nil {
		return nil, nil, err
	}
	log, err := wal.Open(segments)
	return log, bolt, err
}

func open(own, folder, kind string, addresses []string) (*raft.Raft, error) {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	log, stable, err := stores(folder, kind)
	if err != nil {
		return nil, err
	}
	transport, err := raft.NewTCPTransport(own, nil, connections, patience, os.Stderr)
	if err != nil {
		return nil, err
	}
	config := raft.DefaultConfig()
	config.LocalID = raft.ServerID(own)
	config.LogLevel = "WARN"
	config.SnapshotThreshold = math.MaxUint64
	snapshots := raft.NewDiscardSnapshotStore()
	var members raft.Configuration
	for _, address := range addresses {
		members.Servers = append(members.Servers, raft.Server{
			ID: raft.ServerID(address), Address: raft.ServerAddress(address),
		})
	}
	err = raft.BootstrapCluster(config, log, stable, snapshots, transport, members)
	if err != nil {
		return nil, err
	}
	return raft.NewRaft(config, machine{}, log, stable, snapshots, transport)
}

func main() {
	if len(os.Args) < 5 {
		kit.Fail(fmt.Errorf("usage: hashicorp OWN FOLDER wal|bolt|bolt-nosync ADDRESS..."))
	}
	node, err := open(os.Args[1], os.Args[2], os.Args[3], os.Args[4:])
	if err != nil {
		kit.Fail(err)
	}
	status := func() kit.Status {
		return kit.Status{Leads: node.State() == raft.Leader, End: node.LastIndex()}
	}
	kit.Obey(status, func(_ int, body []byte) error { return node.Apply(body, patience).Error() })
}
