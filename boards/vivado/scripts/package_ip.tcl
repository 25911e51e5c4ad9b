# Packages the accelerator as IP of Vivado's catalog: ip/component.xml. Written by `vtakit vivado`.
set here [file dirname [file normalize [info script]]]
source [file join $here settings.tcl]

create_project -force vta_ip [file join $here build ip_project] -part $part
add_files -norecurse [list [file join $here vta.v] [file join $here vta_axi.v]]
add_files -fileset constrs_1 -norecurse [list [file join $here vta_ooc.xdc]]
set_property USED_IN {synthesis out_of_context} [get_files vta_ooc.xdc]
set_property top vta_axi [current_fileset]
update_compile_order -fileset sources_1

ipx::package_project -root_dir [file join $here ip] -vendor vtakit -library user -taxonomy /UserIP -import_files -force
set core [ipx::current_core]
set_property name vta $core
set_property version 1.0 $core
set_property core_revision 1 $core
set_property display_name "VTA" $core
set_property description "An accelerator for deep learning, of vtakit" $core

# Vivado knows the interfaces by the attributes in vta_axi.v.
foreach bus {s_axil m_axi irq aclk aresetn} {
  if {[ipx::get_bus_interfaces $bus -of_objects $core] eq ""} {
    error "vta_axi.v has no interface $bus that Vivado knows: is it the file that vtakit wrote?"
  }
}
foreach bus {s_axil m_axi} {
  ipx::associate_bus_interfaces -busif $bus -clock aclk $core
}
# A page of registers, unless Vivado has made it from the width of the address.
if {[ipx::get_memory_maps s_axil -of_objects $core] eq ""} {
  ipx::add_memory_map s_axil $core
  set_property slave_memory_map_ref s_axil [ipx::get_bus_interfaces s_axil -of_objects $core]
}
set map [ipx::get_memory_maps s_axil -of_objects $core]
if {[ipx::get_address_blocks reg0 -of_objects $map] eq ""} {
  ipx::add_address_block reg0 $map
}
set block [ipx::get_address_blocks reg0 -of_objects $map]
set_property range 4096 $block
set_property width 32 $block
set_property usage register $block

ipx::create_xgui_files $core
ipx::update_checksums $core
ipx::check_integrity $core
ipx::save_core $core
close_project
