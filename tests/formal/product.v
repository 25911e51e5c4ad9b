// Products as rows of sums, so that two of the same operands become the same nodes of the graph: the order of additions in yosys's
// own tree follows the names of its signals.
(* techmap_celltype = "$mul" *)
module product (A, B, Y);
    parameter A_SIGNED = 0;
    parameter B_SIGNED = 0;
    parameter A_WIDTH = 1;
    parameter B_WIDTH = 1;
    parameter Y_WIDTH = 1;
    input [A_WIDTH-1:0] A;
    input [B_WIDTH-1:0] B;
    output [Y_WIDTH-1:0] Y;
    wire _TECHMAP_FAIL_ = A_WIDTH == 0 || B_WIDTH == 0;

    wire [Y_WIDTH-1:0] a, b;
    wire [Y_WIDTH*(Y_WIDTH+1)-1:0] sums;
    genvar n;
    generate
        if (A_SIGNED && B_SIGNED) begin
            assign a = $signed(A);
            assign b = $signed(B);
        end else begin
            assign a = A;
            assign b = B;
        end
        for (n = 0; n < Y_WIDTH; n = n + 1)
            assign sums[(n+1)*Y_WIDTH +: Y_WIDTH] = sums[n*Y_WIDTH +: Y_WIDTH] + ((a << n) & {Y_WIDTH{b[n]}});
    endgenerate
    assign sums[Y_WIDTH-1:0] = 0;
    assign Y = sums[Y_WIDTH*Y_WIDTH +: Y_WIDTH];
endmodule
