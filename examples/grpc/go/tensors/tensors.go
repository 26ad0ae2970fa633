// Package tensors has the tensors of the examples: both sides know every byte.
package tensors

// Columns of every tensor, of 4 bytes each.
const Columns = 384

// rows of tensor n: from one row to 12 MB, which takes more than one message.
var rows = []uint64{1, 2, 3, 5, 8, 100, 1000, 8000}

// Tensor returns shape and bytes of tensor number. Byte i is a function of both, so that nothing can be missing,
// doubled or swapped.
func Tensor(number uint64) ([]uint64, []byte) {
	shape := []uint64{rows[number%uint64(len(rows))], Columns}
	data := make([]byte, shape[0]*shape[1]*4)
	for i := range data {
		index := uint64(i)
		data[i] = byte(index*31 ^ index>>8 ^ number*97)
	}
	return shape, data
}
