// Command send puts tensors into a TransferSession: `send SESSION [COUNT]`, in a pod of its `from` Peer.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	door "sealane.dev/examples/grpc/doorv1"
	"sealane.dev/examples/grpc/tensors"
)

// chunkBytes is how much of a tensor goes into one message. Up to 4 MiB always find room.
const chunkBytes = 4 << 20

type stream = grpc.BidiStreamingClient[door.PutRequest, door.PutResponse]

func main() {
	log.SetFlags(0)
	if len(os.Args) < 2 {
		log.Fatal("usage: send SESSION [COUNT]")
	}
	count := uint64(16)
	if len(os.Args) > 2 {
		parsed, err := strconv.ParseUint(os.Args[2], 10, 32)
		if err != nil {
			log.Fatal(err)
		}
		count = parsed
	}
	taken, uncertain, err := run(os.Args[1], count)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("put %d tensors: %d taken, %d uncertain\n", count, taken, uncertain)
	if taken != count {
		os.Exit(1)
	}
}

func run(session string, count uint64) (taken, uncertain uint64, err error) {
	address := cmp.Or(os.Getenv("SEALANE_GRPC"), "/run/sealane/grpc.sock")
	connection, err := grpc.NewClient("unix://"+address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return 0, 0, err
	}
	defer connection.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	call, err := door.NewDoorClient(connection).Put(ctx)
	if err != nil {
		return 0, 0, err
	}
	// Answers are read at the same time: whoever only writes locks himself up. A failed call fails the reading too,
	// which has the status, so what the writing says adds nothing.
	go func() { _ = putAll(call, session, count) }()
	for {
		news, err := call.Recv()
		if errors.Is(err, io.EOF) {
			return taken, uncertain, nil
		}
		if err != nil {
			return taken, uncertain, explained(call, err)
		}
		taken += length(news.GetTaken())
		uncertain += length(news.GetUncertain())
	}
}

// putAll says everything in order. Send waits while the receivers are slow.
func putAll(call stream, session string, count uint64) error {
	open := &door.PutOpen{Session: session, TimeoutMs: 60_000}
	if err := call.Send(&door.PutRequest{Message: &door.PutRequest_Open{Open: open}}); err != nil {
		return err
	}
	for number := range count {
		if err := put(call, number); err != nil {
			return err
		}
	}
	if err := call.Send(&door.PutRequest{Message: &door.PutRequest_Close{Close: &door.Close{}}}); err != nil {
		return err
	}
	return call.CloseSend()
}

// put says one tensor: its head with the first bytes, then the rest in chunks.
func put(call stream, number uint64) error {
	shape, data := tensors.Tensor(number)
	first := min(len(data), chunkBytes)
	head := &door.PutTensor{
		Dtype: door.DType_DTYPE_FLOAT32,
		Shape: shape,
		Name:  fmt.Sprintf("tensor %d", number),
		Data:  data[:first],
	}
	if err := call.Send(&door.PutRequest{Message: &door.PutRequest_Tensor{Tensor: head}}); err != nil {
		return err
	}
	for offset := first; offset < len(data); offset += chunkBytes {
		part := data[offset:min(offset+chunkBytes, len(data))]
		chunk := &door.Chunk{Offset: uint64(offset), Data: part}
		if err := call.Send(&door.PutRequest{Message: &door.PutRequest_Chunk{Chunk: chunk}}); err != nil {
			return err
		}
	}
	return nil
}

func length(ranges *door.Ranges) (total uint64) {
	for _, one := range ranges.GetRanges() {
		total += one.GetLast() - one.GetFirst() + 1
	}
	return total
}

// explained adds the reason word, which is the same in conditions, metrics and logs.
func explained(call stream, err error) error {
	failure := status.Convert(err)
	return fmt.Errorf("%s: %s (%v)", failure.Code(), failure.Message(), call.Trailer()["sealane-reason"])
}
