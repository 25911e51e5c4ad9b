# Adds the processor of a Zynq-7000: registers at M_AXI_GP0, data at S_AXI_HP0 or S_AXI_ACP, clock FCLK_CLK0.
proc add_processor {name has_board} {
  global core_mhz coherent ddr
  create_bd_cell -type ip -vlnv xilinx.com:ip:processing_system7 $name
  apply_bd_automation -rule xilinx.com:bd_rule:processing_system7 -config [list make_external "FIXED_IO, DDR" \
    apply_board_preset $has_board Master Disable Slave Disable] [get_bd_cells $name]
  if {!$has_board && $ddr ne ""} {
    set_property -dict $ddr [get_bd_cells $name]
  }
  set_property -dict [list \
    CONFIG.PCW_EN_CLK0_PORT 1 CONFIG.PCW_EN_RST0_PORT 1 CONFIG.PCW_FPGA0_PERIPHERAL_FREQMHZ $core_mhz \
    CONFIG.PCW_USE_FABRIC_INTERRUPT 1 CONFIG.PCW_IRQ_F2P_INTR 1 CONFIG.PCW_USE_M_AXI_GP0 1] [get_bd_cells $name]
  set pins [list clock $name/FCLK_CLK0 reset $name/FCLK_RESET0_N irq $name/IRQ_F2P \
    registers $name/M_AXI_GP0 registers_clock $name/M_AXI_GP0_ACLK]
  if {$coherent} {
    # Requests snoop the caches if AxUSER says shared, which the default value does, and AxCACHE has bit 1.
    set_property -dict [list CONFIG.PCW_USE_S_AXI_ACP 1 CONFIG.PCW_USE_DEFAULT_ACP_USER_VAL 1] [get_bd_cells $name]
    return [concat $pins [list data $name/S_AXI_ACP data_clock $name/S_AXI_ACP_ACLK memory $name/S_AXI_ACP/ACP_DDR_LOWOCM]]
  }
  set_property -dict [list CONFIG.PCW_USE_S_AXI_HP0 1 CONFIG.PCW_S_AXI_HP0_DATA_WIDTH 64] [get_bd_cells $name]
  return [concat $pins [list data $name/S_AXI_HP0 data_clock $name/S_AXI_HP0_ACLK memory $name/S_AXI_HP0/HP0_DDR_LOWOCM]]
}
