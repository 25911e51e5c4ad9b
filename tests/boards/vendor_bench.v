// Drives the pins of a vendor's model of an SDRAM from trace.txt, a number an edge as recorded_pins.h packs it, and writes the data bus
// just before each edge to words.txt.
`timescale 1ns / 1ps

module bench;
    parameter PERIOD = 10;
    reg [38:0] pins = 39'h1f;
    reg [38:0] next;
    reg clk = 0;
    integer trace, words;
    wire [15:0] dq = pins[22] ? pins[38:23] : 16'bz;

    mt48lc16m16a2 chip(
        .Dq(dq), .Addr(pins[19:7]), .Ba(pins[6:5]), .Clk(clk), .Cke(pins[0]), .Cs_n(pins[1]), .Ras_n(pins[2]), .Cas_n(pins[3]),
        .We_n(pins[4]), .Dqm(pins[21:20]));

    initial begin
        trace = $fopen("trace.txt", "r");
        words = $fopen("words.txt", "w");
        while ($fscanf(trace, "%h", next) == 1) begin
            clk = 0;
            pins = next;
            #(PERIOD / 2.0 - 0.1) $fwrite(words, "%b\n", dq);
            #0.1 clk = 1;
            #(PERIOD / 2.0);
        end
        $fclose(words);
        $finish;
    end
endmodule
