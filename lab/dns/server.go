package dns

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

const (
	ttlSeconds  = 5
	udpLimit    = 512 // bytes of an answer over UDP without EDNS, RFC 1035 section 4.2.1
	tcpPatience = 10 * time.Second
)

// Serve answers on the address, over UDP and TCP, until the context ends; then it returns nil.
func Serve(ctx context.Context, listen string, zone Zone) error {
	packets, err := net.ListenPacket("udp", listen)
	if err != nil {
		return fmt.Errorf("listen for questions on UDP %s: %w", listen, err)
	}
	connections, err := net.Listen("tcp", listen)
	if err != nil {
		return errors.Join(fmt.Errorf("listen for questions on TCP %s: %w", listen, err), packets.Close())
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var group sync.WaitGroup
	var udpErr, tcpErr error
	group.Go(func() { defer cancel(); udpErr = serveUDP(ctx, packets, zone) })
	group.Go(func() { defer cancel(); tcpErr = serveTCP(ctx, connections, zone) })
	<-ctx.Done()
	closeErr := errors.Join(packets.Close(), connections.Close())
	group.Wait()
	return errors.Join(udpErr, tcpErr, closeErr)
}

func serveUDP(ctx context.Context, packets net.PacketConn, zone Zone) error {
	buffer := make([]byte, 4096)
	for {
		n, from, err := packets.ReadFrom(buffer)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read a question: %w", err)
		}
		answer, err := Answer(zone, buffer[:n], udpLimit)
		if err == nil {
			_, err = packets.WriteTo(answer, from)
		}
		if err != nil && ctx.Err() == nil {
			slog.Info("a question was not answered", "from", from, "reason", err)
		}
	}
}

func serveTCP(ctx context.Context, connections net.Listener, zone Zone) error {
	var group sync.WaitGroup
	defer group.Wait()
	for {
		connection, err := connections.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("accept a connection: %w", err)
		}
		group.Go(func() {
			stop := context.AfterFunc(ctx, func() { _ = connection.Close() }) // it is closed below in any case
			defer stop()
			if err := errors.Join(converse(connection, zone), connection.Close()); err != nil && ctx.Err() == nil {
				slog.Info("a conversation ended early", "from", connection.RemoteAddr(), "reason", err)
			}
		})
	}
}

// converse answers questions on one connection, each with its length before it (RFC 1035 section 4.2.2), until the
// other side ends it or is quiet for too long.
func converse(connection net.Conn, zone Zone) error {
	for {
		if err := connection.SetDeadline(time.Now().Add(tcpPatience)); err != nil {
			return err
		}
		var length [2]byte
		if _, err := io.ReadFull(connection, length[:]); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		question := make([]byte, binary.BigEndian.Uint16(length[:]))
		if _, err := io.ReadFull(connection, question); err != nil {
			return err
		}
		answer, err := Answer(zone, question, 65535)
		if err != nil {
			return err
		}
		if _, err := connection.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...)); err != nil {
			return err
		}
	}
}

// Answer makes the reply to one question of at most limit bytes; a longer one is marked as cut, so that the client asks
// again over TCP. The error is for what can't be answered at all.
func Answer(zone Zone, question []byte, limit int) ([]byte, error) {
	var parser dnsmessage.Parser
	header, err := parser.Start(question)
	if err != nil {
		return nil, fmt.Errorf("read the question's header: %w", err)
	}
	if header.Response {
		return nil, errors.New("it is an answer, not a question")
	}
	asked, err := parser.Question()
	if err != nil {
		return nil, fmt.Errorf("read the question: %w", err)
	}
	reply := dnsmessage.Message{
		Header: dnsmessage.Header{
			ID: header.ID, Response: true, OpCode: header.OpCode, Authoritative: true,
			RecursionDesired: header.RecursionDesired, RecursionAvailable: true,
		},
		Questions: []dnsmessage.Question{asked},
	}
	fill(&reply, zone.Lookup(asked.Name.String()), asked)
	packed, err := reply.Pack()
	if err == nil && len(packed) > limit {
		reply.Answers, reply.Truncated = nil, true
		packed, err = reply.Pack()
	}
	if err != nil {
		return nil, fmt.Errorf("write the answer for %s: %w", asked.Name, err)
	}
	return packed, nil
}

// fill puts a record into a reply. A name that exists without what was asked for is no error (NODATA, RFC 2308).
func fill(reply *dnsmessage.Message, record Record, asked dnsmessage.Question) {
	if !record.Exists {
		reply.RCode = dnsmessage.RCodeNameError
		return
	}
	header := dnsmessage.ResourceHeader{Name: asked.Name, Class: dnsmessage.ClassINET, TTL: ttlSeconds}
	if record.Alias != "" {
		if alias, err := dnsmessage.NewName(record.Alias + "."); err == nil {
			header.Type = dnsmessage.TypeCNAME
			reply.Answers = append(reply.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.CNAMEResource{CNAME: alias}})
		}
		return
	}
	if asked.Type != dnsmessage.TypeA && asked.Type != dnsmessage.TypeALL {
		return
	}
	header.Type = dnsmessage.TypeA
	for _, address := range record.Addresses {
		reply.Answers = append(reply.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AResource{A: address.As4()}})
	}
}
