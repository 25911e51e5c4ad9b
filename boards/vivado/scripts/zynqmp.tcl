# Adds the processor of a Zynq UltraScale+: registers at M_AXI_HPM0_FPD, data at S_AXI_HP0_FPD or S_AXI_HPC0_FPD, clock pl_clk0.
proc add_processor {name has_board} {
  global core_mhz coherent bus_bits
  create_bd_cell -type ip -vlnv xilinx.com:ip:zynq_ultra_ps_e $name
  if {$has_board} {
    apply_bd_automation -rule xilinx.com:bd_rule:zynq_ultra_ps_e -config [list apply_board_preset 1] [get_bd_cells $name]
  }
  # Vivado calls HPM0_FPD M_AXI_GP0, HPM0_LPD M_AXI_GP2, HPC0 S_AXI_GP0, and HP0 S_AXI_GP2.
  set_property -dict [list \
    CONFIG.PSU__FPGA_PL0_ENABLE 1 CONFIG.PSU__CRL_APB__PL0_REF_CTRL__FREQMHZ $core_mhz CONFIG.PSU__USE__FABRIC__RST 1 \
    CONFIG.PSU__USE__IRQ0 1 CONFIG.PSU__USE__M_AXI_GP0 1 CONFIG.PSU__MAXIGP0__DATA_WIDTH 32 CONFIG.PSU__USE__M_AXI_GP1 0 \
    CONFIG.PSU__USE__M_AXI_GP2 0] [get_bd_cells $name]
  set pins [list clock $name/pl_clk0 reset $name/pl_resetn0 irq $name/pl_ps_irq0 \
    registers $name/M_AXI_HPM0_FPD registers_clock $name/maxihpm0_fpd_aclk]
  if {$coherent} {
    set_property -dict [list CONFIG.PSU__USE__S_AXI_GP0 1 CONFIG.PSU__SAXIGP0__DATA_WIDTH $bus_bits \
      CONFIG.PSU__USE__S_AXI_GP2 0] [get_bd_cells $name]
    return [concat $pins [list data $name/S_AXI_HPC0_FPD data_clock $name/saxihpc0_fpd_aclk memory $name/SAXIGP0/HPC0_DDR_LOW]]
  }
  set_property -dict [list CONFIG.PSU__USE__S_AXI_GP2 1 CONFIG.PSU__SAXIGP2__DATA_WIDTH $bus_bits \
    CONFIG.PSU__USE__S_AXI_GP0 0] [get_bd_cells $name]
  return [concat $pins [list data $name/S_AXI_HP0_FPD data_clock $name/saxihp0_fpd_aclk memory $name/SAXIGP2/HP0_DDR_LOW]]
}
