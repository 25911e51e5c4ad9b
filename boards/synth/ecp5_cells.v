// What two blocks of an ECP5 do, of which yosys has no model, multiplier and block RAM, as far as this kit uses them. A block that is
// configured otherwise ends the simulation, or the proof, with an error. Written from Lattice's guides of sysDSP (FPGA-TN-02205) and
// memory (FPGA-TN-02204).

// Two numbers of 18 bits, each with a sign if SIGNEDA or SIGNEDB says so, and their product, over the registers that the parameters
// name: behind the operands (with their sign's), behind the product, and at the output, in this order. CLKn_DIV "ENABLED" is a clock of
// one edge a cycle. C, shift chains, the second pair of operands and asynchronous resets are left out.
module MULT18X18D(
    input A17, A16, A15, A14, A13, A12, A11, A10, A9, A8, A7, A6, A5, A4, A3, A2, A1, A0,
    input B17, B16, B15, B14, B13, B12, B11, B10, B9, B8, B7, B6, B5, B4, B3, B2, B1, B0,
    input C17, C16, C15, C14, C13, C12, C11, C10, C9, C8, C7, C6, C5, C4, C3, C2, C1, C0,
    input SIGNEDA, SIGNEDB, SOURCEA, SOURCEB,
    input CLK3, CLK2, CLK1, CLK0, CE3, CE2, CE1, CE0, RST3, RST2, RST1, RST0,
    output P35, P34, P33, P32, P31, P30, P29, P28, P27, P26, P25, P24, P23, P22, P21, P20, P19, P18,
    output P17, P16, P15, P14, P13, P12, P11, P10, P9, P8, P7, P6, P5, P4, P3, P2, P1, P0
);
    parameter REG_INPUTA_CLK = "NONE", REG_INPUTA_CE = "CE0", REG_INPUTA_RST = "RST0";
    parameter REG_INPUTB_CLK = "NONE", REG_INPUTB_CE = "CE0", REG_INPUTB_RST = "RST0";
    parameter REG_INPUTC_CLK = "NONE";
    parameter REG_PIPELINE_CLK = "NONE", REG_PIPELINE_CE = "CE0", REG_PIPELINE_RST = "RST0";
    parameter REG_OUTPUT_CLK = "NONE", REG_OUTPUT_CE = "CE0", REG_OUTPUT_RST = "RST0";
    parameter CLK0_DIV = "ENABLED", CLK1_DIV = "ENABLED", CLK2_DIV = "ENABLED", CLK3_DIV = "ENABLED", HIGHSPEED_CLK = "NONE";
    parameter GSR = "ENABLED", CAS_MATCH_REG = "FALSE", SOURCEB_MODE = "B_SHIFT", MULT_BYPASS = "DISABLED", RESETMODE = "SYNC";

    generate
        if (REG_INPUTC_CLK != "NONE" || HIGHSPEED_CLK != "NONE" || CAS_MATCH_REG != "FALSE" || SOURCEB_MODE != "B_SHIFT"
            || MULT_BYPASS != "DISABLED" || RESETMODE != "SYNC" || CLK0_DIV != "ENABLED")
            multiplier_configured_in_a_way_that_its_model_lacks error();
    endgenerate

    wire signed [18:0] a, b;
    wire [37:0] product;
    wire [35:0] inner;
    ecp5_register #(.WIDTH(19), .CLK(REG_INPUTA_CLK), .CE(REG_INPUTA_CE), .RST(REG_INPUTA_RST)) into_a(
        .clk({CLK3, CLK2, CLK1, CLK0}), .ce({CE3, CE2, CE1, CE0}), .rst({RST3, RST2, RST1, RST0}),
        .d({SIGNEDA & A17, A17, A16, A15, A14, A13, A12, A11, A10, A9, A8, A7, A6, A5, A4, A3, A2, A1, A0}), .q(a));
    ecp5_register #(.WIDTH(19), .CLK(REG_INPUTB_CLK), .CE(REG_INPUTB_CE), .RST(REG_INPUTB_RST)) into_b(
        .clk({CLK3, CLK2, CLK1, CLK0}), .ce({CE3, CE2, CE1, CE0}), .rst({RST3, RST2, RST1, RST0}),
        .d({SIGNEDB & B17, B17, B16, B15, B14, B13, B12, B11, B10, B9, B8, B7, B6, B5, B4, B3, B2, B1, B0}), .q(b));
    assign product = a * b;
    ecp5_register #(.WIDTH(36), .CLK(REG_PIPELINE_CLK), .CE(REG_PIPELINE_CE), .RST(REG_PIPELINE_RST)) pipeline(
        .clk({CLK3, CLK2, CLK1, CLK0}), .ce({CE3, CE2, CE1, CE0}), .rst({RST3, RST2, RST1, RST0}), .d(product[35:0]), .q(inner));
    ecp5_register #(.WIDTH(36), .CLK(REG_OUTPUT_CLK), .CE(REG_OUTPUT_CE), .RST(REG_OUTPUT_RST)) out(
        .clk({CLK3, CLK2, CLK1, CLK0}), .ce({CE3, CE2, CE1, CE0}), .rst({RST3, RST2, RST1, RST0}), .d(inner),
        .q({P35, P34, P33, P32, P31, P30, P29, P28, P27, P26, P25, P24, P23, P22, P21, P20, P19, P18,
            P17, P16, P15, P14, P13, P12, P11, P10, P9, P8, P7, P6, P5, P4, P3, P2, P1, P0}));
endmodule

// As yosys's, in one expression.
module LUT4(input A, B, C, D, output Z);
    parameter [15:0] INIT = 0;
    wire [15:0] table_of = INIT >> {D, C, B, A};
    assign Z = table_of[0];
endmodule

// A register of a multiplier, or with CLK "NONE" a wire. Reset comes before enable; configuration leaves 0 in it.
module ecp5_register(input [3:0] clk, ce, rst, input [WIDTH-1:0] d, output [WIDTH-1:0] q);
    parameter WIDTH = 1, CLK = "NONE", CE = "CE0", RST = "RST0";
    localparam C = CLK == "CLK3" ? 3 : CLK == "CLK2" ? 2 : CLK == "CLK1" ? 1 : 0;
    localparam E = CE == "CE3" ? 3 : CE == "CE2" ? 2 : CE == "CE1" ? 1 : 0;
    localparam R = RST == "RST3" ? 3 : RST == "RST2" ? 2 : RST == "RST1" ? 1 : 0;
    generate
        if (CLK == "NONE") begin
            assign q = d;
        end else begin
            reg [WIDTH-1:0] held = 0;
            wire edge_of = clk[C];
            always @(posedge edge_of) if (rst[R]) held <= 0; else if (ce[E]) held <= d;
            assign q = held;
        end
    endgenerate
endmodule

// 1,024 words of 18 bits with two ports; or of 36 bits, where port A writes and port B reads. Addresses count bits: a word of 18 has the
// lowest four to itself, of which the lowest two say which halves are written. Of 8 bits in a half of 9, narrower words have the lower.
module DP16KD(
    input DIA17, DIA16, DIA15, DIA14, DIA13, DIA12, DIA11, DIA10, DIA9, DIA8, DIA7, DIA6, DIA5, DIA4, DIA3, DIA2, DIA1, DIA0,
    input ADA13, ADA12, ADA11, ADA10, ADA9, ADA8, ADA7, ADA6, ADA5, ADA4, ADA3, ADA2, ADA1, ADA0,
    input CEA, OCEA, CLKA, WEA, RSTA, CSA2, CSA1, CSA0,
    output DOA17, DOA16, DOA15, DOA14, DOA13, DOA12, DOA11, DOA10, DOA9, DOA8, DOA7, DOA6, DOA5, DOA4, DOA3, DOA2, DOA1, DOA0,
    input DIB17, DIB16, DIB15, DIB14, DIB13, DIB12, DIB11, DIB10, DIB9, DIB8, DIB7, DIB6, DIB5, DIB4, DIB3, DIB2, DIB1, DIB0,
    input ADB13, ADB12, ADB11, ADB10, ADB9, ADB8, ADB7, ADB6, ADB5, ADB4, ADB3, ADB2, ADB1, ADB0,
    input CEB, OCEB, CLKB, WEB, RSTB, CSB2, CSB1, CSB0,
    output DOB17, DOB16, DOB15, DOB14, DOB13, DOB12, DOB11, DOB10, DOB9, DOB8, DOB7, DOB6, DOB5, DOB4, DOB3, DOB2, DOB1, DOB0
);
    parameter DATA_WIDTH_A = 18, DATA_WIDTH_B = 18;
    parameter REGMODE_A = "NOREG", REGMODE_B = "NOREG", RESETMODE = "SYNC", ASYNC_RESET_RELEASE = "SYNC";
    parameter CSDECODE_A = "0b000", CSDECODE_B = "0b000", WRITEMODE_A = "NORMAL", WRITEMODE_B = "NORMAL";
    parameter CLKAMUX = "CLKA", CLKBMUX = "CLKB", GSR = "ENABLED", INIT_DATA = "STATIC";
    parameter [319:0]
        INITVAL_00 = 0, INITVAL_01 = 0, INITVAL_02 = 0, INITVAL_03 = 0, INITVAL_04 = 0, INITVAL_05 = 0, INITVAL_06 = 0, INITVAL_07 = 0,
        INITVAL_08 = 0, INITVAL_09 = 0, INITVAL_0A = 0, INITVAL_0B = 0, INITVAL_0C = 0, INITVAL_0D = 0, INITVAL_0E = 0, INITVAL_0F = 0,
        INITVAL_10 = 0, INITVAL_11 = 0, INITVAL_12 = 0, INITVAL_13 = 0, INITVAL_14 = 0, INITVAL_15 = 0, INITVAL_16 = 0, INITVAL_17 = 0,
        INITVAL_18 = 0, INITVAL_19 = 0, INITVAL_1A = 0, INITVAL_1B = 0, INITVAL_1C = 0, INITVAL_1D = 0, INITVAL_1E = 0, INITVAL_1F = 0,
        INITVAL_20 = 0, INITVAL_21 = 0, INITVAL_22 = 0, INITVAL_23 = 0, INITVAL_24 = 0, INITVAL_25 = 0, INITVAL_26 = 0, INITVAL_27 = 0,
        INITVAL_28 = 0, INITVAL_29 = 0, INITVAL_2A = 0, INITVAL_2B = 0, INITVAL_2C = 0, INITVAL_2D = 0, INITVAL_2E = 0, INITVAL_2F = 0,
        INITVAL_30 = 0, INITVAL_31 = 0, INITVAL_32 = 0, INITVAL_33 = 0, INITVAL_34 = 0, INITVAL_35 = 0, INITVAL_36 = 0, INITVAL_37 = 0,
        INITVAL_38 = 0, INITVAL_39 = 0, INITVAL_3A = 0, INITVAL_3B = 0, INITVAL_3C = 0, INITVAL_3D = 0, INITVAL_3E = 0, INITVAL_3F = 0;

    localparam WIDE = DATA_WIDTH_A == 36;
    generate
        if (REGMODE_A != "NOREG" || REGMODE_B != "NOREG" || CLKAMUX != "CLKA" || CLKBMUX != "CLKB" || CSDECODE_A != "0b000"
            || CSDECODE_B != "0b000" || WRITEMODE_A == "WRITETHROUGH" || WRITEMODE_B == "WRITETHROUGH"
            || (DATA_WIDTH_B == 36 && !WIDE))
            block_ram_configured_in_a_way_that_its_model_lacks error();
    endgenerate

    wire [13:0] at_a = {ADA13, ADA12, ADA11, ADA10, ADA9, ADA8, ADA7, ADA6, ADA5, ADA4, ADA3, ADA2, ADA1, ADA0};
    wire [13:0] at_b = {ADB13, ADB12, ADB11, ADB10, ADB9, ADB8, ADB7, ADB6, ADB5, ADB4, ADB3, ADB2, ADB1, ADB0};
    wire [17:0] in_a = {DIA17, DIA16, DIA15, DIA14, DIA13, DIA12, DIA11, DIA10, DIA9, DIA8, DIA7, DIA6, DIA5, DIA4, DIA3, DIA2, DIA1, DIA0};
    wire [17:0] in_b = {DIB17, DIB16, DIB15, DIB14, DIB13, DIB12, DIB11, DIB10, DIB9, DIB8, DIB7, DIB6, DIB5, DIB4, DIB3, DIB2, DIB1, DIB0};
    reg [17:0] out_a = 0, out_b = 0;
    assign {DOA17, DOA16, DOA15, DOA14, DOA13, DOA12, DOA11, DOA10, DOA9, DOA8, DOA7, DOA6, DOA5, DOA4, DOA3, DOA2, DOA1, DOA0} = out_a;
    assign {DOB17, DOB16, DOB15, DOB14, DOB13, DOB12, DOB11, DOB10, DOB9, DOB8, DOB7, DOB6, DOB5, DOB4, DOB3, DOB2, DOB1, DOB0} = out_b;

    // Even words and odd ones, so that a port of 36 bits has one place in each.
    reg [17:0] even[0:511], odd[0:511];
    localparam [64*320-1:0] INIT = {
        INITVAL_3F, INITVAL_3E, INITVAL_3D, INITVAL_3C, INITVAL_3B, INITVAL_3A, INITVAL_39, INITVAL_38,
        INITVAL_37, INITVAL_36, INITVAL_35, INITVAL_34, INITVAL_33, INITVAL_32, INITVAL_31, INITVAL_30,
        INITVAL_2F, INITVAL_2E, INITVAL_2D, INITVAL_2C, INITVAL_2B, INITVAL_2A, INITVAL_29, INITVAL_28,
        INITVAL_27, INITVAL_26, INITVAL_25, INITVAL_24, INITVAL_23, INITVAL_22, INITVAL_21, INITVAL_20,
        INITVAL_1F, INITVAL_1E, INITVAL_1D, INITVAL_1C, INITVAL_1B, INITVAL_1A, INITVAL_19, INITVAL_18,
        INITVAL_17, INITVAL_16, INITVAL_15, INITVAL_14, INITVAL_13, INITVAL_12, INITVAL_11, INITVAL_10,
        INITVAL_0F, INITVAL_0E, INITVAL_0D, INITVAL_0C, INITVAL_0B, INITVAL_0A, INITVAL_09, INITVAL_08,
        INITVAL_07, INITVAL_06, INITVAL_05, INITVAL_04, INITVAL_03, INITVAL_02, INITVAL_01, INITVAL_00};
    integer n;
    initial for (n = 0; n < 512; n = n + 1) begin
        even[n] = INIT[n / 8 * 320 + n % 8 * 40 +: 18];
        odd[n] = INIT[n / 8 * 320 + n % 8 * 40 + 20 +: 18];
    end

    // A word of a port's width at a bit's address, and what a word of 18 bits becomes where that is written.
    function [17:0] taken(input integer width, input [17:0] word, input [13:0] at);
        taken = width >= 18 ? word : width == 9 ? (at[3] ? word[17:9] : word[8:0])
              : ((at[3] ? word[16:9] : word[7:0]) >> at[2:0]) & ((1 << width) - 1);
    endfunction
    function [17:0] changed(input integer width, input [17:0] word, input [13:0] at, input [17:0] in);
        reg [17:0] mask;
        begin
            if (width >= 18) begin
                mask = {{9{at[1]}}, {9{at[0]}}};
                changed = word & ~mask | in & mask;
            end else begin
                mask = ((1 << width) - 1) << (width == 9 ? 0 : at[2:0]) << (at[3] ? 9 : 0);
                changed = word & ~mask | (in << (width == 9 ? 0 : at[2:0]) << (at[3] ? 9 : 0)) & mask;
            end
        end
    endfunction

    wire [8:0] row_a = at_a[13:5], row_b = at_b[13:5];
    wire runs_a = CEA & ~CSA2 & ~CSA1 & ~CSA0, runs_b = CEB & ~CSB2 & ~CSB1 & ~CSB0;
    wire [17:0] word_a = at_a[4] ? odd[row_a] : even[row_a], word_b = at_b[4] ? odd[row_b] : even[row_b];
    generate
        if (WIDE) begin
            wire [17:0] low = even[row_a], high = odd[row_a];
            always @(posedge CLKA) if (runs_a & WEA) begin
                even[row_a] <= changed(18, low, {12'b0, at_a[1:0]}, in_a);
                odd[row_a] <= changed(18, high, {12'b0, at_a[3:2]}, in_b);
            end
            always @(posedge CLKB) begin
                if (RSTB) {out_b, out_a} <= 0;
                else if (runs_b) begin
                    out_a <= DATA_WIDTH_B == 36 ? even[row_b] : 0;
                    out_b <= DATA_WIDTH_B == 36 ? odd[row_b] : taken(DATA_WIDTH_B, word_b, at_b);
                end
            end
        end else begin
            always @(posedge CLKA) begin
                if (runs_a & WEA & ~at_a[4]) even[row_a] <= changed(DATA_WIDTH_A, word_a, at_a, in_a);
                if (runs_a & WEA & at_a[4]) odd[row_a] <= changed(DATA_WIDTH_A, word_a, at_a, in_a);
                if (RSTA) out_a <= 0;
                else if (runs_a & (~WEA | WRITEMODE_A == "READBEFOREWRITE")) out_a <= taken(DATA_WIDTH_A, word_a, at_a);
            end
            always @(posedge CLKB) begin
                if (runs_b & WEB & ~at_b[4]) even[row_b] <= changed(DATA_WIDTH_B, word_b, at_b, in_b);
                if (runs_b & WEB & at_b[4]) odd[row_b] <= changed(DATA_WIDTH_B, word_b, at_b, in_b);
                if (RSTB) out_b <= 0;
                else if (runs_b & (~WEB | WRITEMODE_B == "READBEFOREWRITE")) out_b <= taken(DATA_WIDTH_B, word_b, at_b);
            end
        end
    endgenerate
endmodule
