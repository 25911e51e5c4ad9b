# Makes a project whose block design joins the accelerator to the processor of the Zynq. Written by `vtakit vivado`.
# package_ip.tcl comes first. Vivado 2020.2 or newer.
set here [file dirname [file normalize [info script]]]
source [file join $here settings.tcl]
source [file join $here processor.tcl]

if {![regexp {^(\d+)\.(\d+)} [version -short] all year release] || $year * 10 + $release < 20202} {
  error "this script needs Vivado 2020.2 or newer, and this is [version -short]"
}
create_project -force vta [file join $here build project] -part $part
set board ""
if {$board_files ne ""} {
  set board [lindex [get_board_parts -quiet $board_files] end]
}
if {$board ne ""} {
  set_property board_part $board [current_project]
}
set_property ip_repo_paths [list [file join $here ip]] [current_project]
update_ip_catalog

create_bd_design system
# Names of the processor's pins: clock, reset, irq, registers, registers_clock, data, data_clock, memory.
array set ps [add_processor ps [expr {$board ne ""}]]
create_bd_cell -type ip -vlnv vtakit:user:vta:1.0 vta_0
# Its resets last 16 cycles and more; the accelerator needs one, of which it makes three.
create_bd_cell -type ip -vlnv xilinx.com:ip:proc_sys_reset reset_0
foreach name {control_0 data_0} {
  create_bd_cell -type ip -vlnv xilinx.com:ip:smartconnect $name
  set_property -dict [list CONFIG.NUM_SI 1 CONFIG.NUM_MI 1] [get_bd_cells $name]
}

connect_bd_intf_net [get_bd_intf_pins $ps(registers)] [get_bd_intf_pins control_0/S00_AXI]
connect_bd_intf_net [get_bd_intf_pins control_0/M00_AXI] [get_bd_intf_pins vta_0/s_axil]
connect_bd_intf_net [get_bd_intf_pins vta_0/m_axi] [get_bd_intf_pins data_0/S00_AXI]
connect_bd_intf_net [get_bd_intf_pins data_0/M00_AXI] [get_bd_intf_pins $ps(data)]

connect_bd_net [get_bd_pins $ps(clock)] [get_bd_pins $ps(registers_clock)] [get_bd_pins $ps(data_clock)] \
  [get_bd_pins reset_0/slowest_sync_clk] [get_bd_pins control_0/aclk] [get_bd_pins data_0/aclk] [get_bd_pins vta_0/aclk]
connect_bd_net [get_bd_pins $ps(reset)] [get_bd_pins reset_0/ext_reset_in]
connect_bd_net [get_bd_pins reset_0/interconnect_aresetn] [get_bd_pins control_0/aresetn] [get_bd_pins data_0/aresetn]
connect_bd_net [get_bd_pins reset_0/peripheral_aresetn] [get_bd_pins vta_0/aresetn]
connect_bd_net [get_bd_pins vta_0/irq] [get_bd_pins $ps(irq)]

assign_bd_address -offset $registers -range 4K -target_address_space [get_bd_addr_spaces ps/Data] \
  [get_bd_addr_segs vta_0/s_axil/reg0] -force
assign_bd_address -target_address_space [get_bd_addr_spaces vta_0/m_axi] [get_bd_addr_segs $ps(memory)]

validate_bd_design
save_bd_design
add_files -norecurse [make_wrapper -files [get_files system.bd] -top]
add_files -fileset constrs_1 -norecurse [list [file join $here vta.xdc]]
set_property top system_wrapper [current_fileset]
update_compile_order -fileset sources_1
close_project
