// Command receive takes tensors out of a TransferSession: `receive SESSION`, in a pod of one of its `to` Peers.
package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	door "sealane.dev/examples/grpc/doorv1"
	"sealane.dev/examples/grpc/tensors"
)

type stream = grpc.BidiStreamingClient[door.TakeRequest, door.TakeResponse]

func main() {
	log.SetFlags(0)
	if len(os.Args) < 2 {
		log.Fatal("usage: receive SESSION")
	}
	count, size, err := run(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("took %d tensors, %d bytes, every byte as it was put\n", count, size)
}

func run(session string) (count, size int, err error) {
	address := cmp.Or(os.Getenv("SEALANE_GRPC"), "/run/sealane/grpc.sock")
	connection, err := grpc.NewClient("unix://"+address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return 0, 0, err
	}
	defer connection.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	call, err := door.NewDoorClient(connection).Take(ctx)
	if err != nil {
		return 0, 0, err
	}
	open := &door.TakeOpen{Session: session, TimeoutMs: 60_000}
	if err := call.Send(&door.TakeRequest{Message: &door.TakeRequest_Open{Open: open}}); err != nil {
		return 0, 0, err
	}
	for {
		answer, err := call.Recv()
		if errors.Is(err, io.EOF) {
			return count, size, nil
		}
		if err != nil {
			return count, size, explained(call, err)
		}
		if lost := answer.GetInterrupted(); lost != nil {
			log.Printf("%s was lost; others may go on", lost.GetSender())
		}
		head := answer.GetTensor()
		if head == nil {
			continue
		}
		data, err := rest(call, head)
		if err != nil {
			return count, size, err
		}
		shape, expected := tensors.Tensor(head.GetSequence())
		same := head.GetDtype() == door.DType_DTYPE_FLOAT32 && slices.Equal(shape, head.GetShape())
		if !same || !bytes.Equal(data, expected) {
			return count, size, fmt.Errorf("%s of %s is not what was put", head.GetName(), head.GetSender())
		}
		// The sender may forget it now, and its place here is free.
		taken := &door.Taken{Deliveries: []uint64{head.GetDelivery()}}
		if err := call.Send(&door.TakeRequest{Message: &door.TakeRequest_Taken{Taken: taken}}); err != nil && err != io.EOF {
			return count, size, err
		}
		count, size = count+1, size+len(data)
	}
}

// rest puts a tensor together from its messages.
func rest(call stream, head *door.TakenTensor) ([]byte, error) {
	data := head.GetData()
	for uint64(len(data)) < head.GetLength() {
		answer, err := call.Recv()
		if err != nil {
			return nil, explained(call, err)
		}
		data = append(data, answer.GetChunk().GetData()...)
	}
	return data, nil
}

// explained adds the reason word, which is the same in conditions, metrics and logs.
func explained(call stream, err error) error {
	failure := status.Convert(err)
	return fmt.Errorf("%s: %s (%v)", failure.Code(), failure.Message(), call.Trailer()["sealane-reason"])
}
