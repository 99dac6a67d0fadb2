// Rows of a matrix that lie in one buffer, and what is done with their products.
struct Shard {
    rows: u32,
    // Which row of the matrix is its first.
    first: u32,
    // Numbers in a row, zeros at its end included: 16 spans.
    width: u32,
    span: u32,
    // Numbers between the outputs of two columns.
    stride: u32,
    biased: u32,
}
