# A stand-in for Vivado, for tests: `tclsh vivado.tcl SCRIPT`. It records every command and keeps what the commands make.
#
# It knows the commands that our scripts may use, their options, the properties of each kind of object, and of each cell its pins,
# which depend on its properties. Whatever it does not know is an error, and so is a pin that is left open. Names are those of AMD's
# documents: UG835 (Tcl commands), PG082 (processing_system7), PG201 (zynq_ultra_ps_e), PG247 (smartconnect), PG164 (proc_sys_reset).
#
# Environment: STUB_LOG, the file for the record; STUB_VERSION; STUB_BOARDS, board files that are installed; STUB_SLACK; STUB_PROGRESS;
# STUB_NO_MAP, 1 for a packager that makes no memory map by itself.

namespace eval ipx {}
proc choice {name default} { expr {[info exists ::env($name)] ? $::env($name) : $default} }
set log [open [choice STUB_LOG commands.log] a]
proc record {name words} { puts $::log [list $name {*}$words] }

# The options of a command: `flags` have no value, `valued` have one; returns {options positional}.
proc parse {command words flags valued} {
  set options [dict create]
  set rest {}
  for {set n 0} {$n < [llength $words]} {incr n} {
    set word [lindex $words $n]
    if {$word in $flags} {
      dict set options $word 1
    } elseif {$word in $valued} {
      dict set options $word [lindex $words [incr n]]
    } elseif {[regexp {^-[a-z_]+$} $word]} {
      error "$command has no option $word"
    } else {
      lappend rest $word
    }
  }
  return [list $options $rest]
}
proc stub {name flags valued least most body} {
  proc $name args [format {
    record %1$s $args
    lassign [parse %1$s $args {%2$s} {%3$s}] options rest
    if {[llength $rest] < %4$s || [llength $rest] > %5$s} {
      error "%1$s takes %4$s to %5$s arguments, got $rest"
    }
    %6$s
  } $name $flags $valued $least $most $body]
}
proc need {true message} { if {!$true} { error $message } }

# ---- projects and files: an object is {kind name}
set state [dict create project "" files {} boards [choice STUB_BOARDS ""] repositories {}]
stub version {-short} {} 0 0 { choice STUB_VERSION 2022.1 }
stub create_project {-force} {-part} 1 2 {
  need [regexp {^x[acq][A-Za-z0-9]+(-[A-Za-z0-9]+)*$} [dict get $options -part]] "no part [dict get $options -part]"
  lassign $rest name folder
  file mkdir $folder
  close [open [file join $folder $name.xpr] w]
  dict set ::state project [file join $folder $name.xpr]
  dict set ::state files {}
}
stub open_project {} {} 1 1 {
  need [file exists [lindex $rest 0]] "no project [lindex $rest 0]"
  dict set ::state project [lindex $rest 0]
}
stub close_project {} {} 0 0 { need_project; dict set ::state project "" }
proc need_project {} { need [expr {[dict get $::state project] ne ""}] "no project is open" }
stub current_project {} {} 0 0 { need_project; list project [dict get $::state project] }
stub current_fileset {} {} 0 0 { need_project; list fileset sources_1 }
stub current_design {} {} 0 0 { list design top }
stub add_files {-norecurse} {-fileset} 1 1 {
  need_project
  if {[dict exists $options -fileset]} { need [expr {[dict get $options -fileset] in {sources_1 constrs_1}}] "no such fileset" }
  foreach path [lindex $rest 0] {
    need [file exists $path] "add_files: there is no $path"
    dict lappend ::state files $path
    if {[file extension $path] eq ".xdc"} { source $path }
  }
}
stub get_files {} {} 1 1 {
  foreach path [dict get $::state files] {
    if {[file tail $path] eq [lindex $rest 0]} { return [list file $path] }
  }
  error "the project has no file [lindex $rest 0]"
}
stub update_compile_order {} {-fileset} 0 0 { need [expr {[dict get $options -fileset] eq "sources_1"}] "which fileset?" }
stub update_ip_catalog {} {} 0 0 {
  foreach folder [dict get $::state repositories] {
    need [file exists [file join $folder component.xml]] "$folder has no IP"
    source [file join $folder component.xml]
  }
}
stub get_board_parts {-quiet} {} 1 1 { lsearch -all -inline -glob [dict get $::state boards] [lindex $rest 0] }
stub create_clock {} {-name -period} 1 1 {
  need [expr {[lindex $rest 0] eq "port aclk" && [dict get $options -period] > 0}] "create_clock: $rest"
}
stub get_ports {} {} 1 1 { need [expr {[lindex $rest 0] in {aclk aresetn}}] "no port $rest"; list port [lindex $rest 0] }

# ---- properties
set known [dict create \
  project {board_part ip_repo_paths} fileset {top} file {USED_IN} design {BITSTREAM.GENERAL.COMPRESS} \
  core {name version core_revision display_name description} interface {slave_memory_map_ref} block {range width usage}]
set values [dict create]
stub set_property {} {-dict} 1 3 {
  if {[dict exists $options -dict]} {
    set given [dict get $options -dict]
    set object [lindex $rest 0]
  } else {
    lassign $rest name value object
    set given [list $name $value]
  }
  need [expr {[llength $object] == 2}] "set_property: no object"
  lassign $object kind id
  dict for {name value} $given {
    if {$kind eq "cell"} {
      set_config $id $name $value
      continue
    }
    need [expr {[dict exists $::known $kind] && $name in [dict get $::known $kind]}] "a $kind has no property $name"
    dict set ::values $object $name $value
    if {$name eq "ip_repo_paths"} { dict set ::state repositories $value }
    if {$name eq "board_part"} { need [expr {$value in [dict get $::state boards]}] "no board $value" }
    if {$name eq "top"} { need [expr {$value in {vta_axi system_wrapper}}] "no module $value" }
  }
}

# ---- the IP packager: interfaces are those of the attributes in the Verilog
set interfaces [dict create]
set maps {}
set blocks {}
stub ipx::package_project {-import_files -force} {-root_dir -vendor -library -taxonomy} 0 0 {
  set modules ""
  foreach path [dict get $::state files] {
    if {[file extension $path] ne ".v"} continue
    set text [read [open $path]]
    if {[file tail $path] ne "vta_axi.v"} { append modules $text; continue }
    foreach {all vlnv name port} [regexp -all -inline {X_INTERFACE_INFO = "(\S+) (\S+) (\S+?)"} $text] {
      dict set ::interfaces $name $vlnv
      dict lappend ::ports $name $port
    }
    need [regexp {ASSOCIATED_BUSIF s_axil:m_axi, ASSOCIATED_RESET aresetn} $text] "the clock is of no interface"
  }
  need [regexp {module vta\(} $modules] "the project lacks vta.v"
  if {[choice STUB_NO_MAP 0] == 0} { set ::maps s_axil; set ::blocks reg0 }
  dict set ::state ip $options
}
proc ipx_of {options} { need [expr {[dict get $options -of_objects] ne ""}] "of no object" }
proc ipx::current_core {} { record ipx::current_core {}; list core vta }
stub ipx::get_bus_interfaces {} {-of_objects} 1 1 {
  ipx_of $options
  set name [lindex $rest 0]
  expr {[dict exists $::interfaces $name] ? [list interface $name] : ""}
}
stub ipx::associate_bus_interfaces {} {-busif -clock} 1 1 {
  need [expr {[dict get $options -clock] eq "aclk" && [dict exists $::interfaces [dict get $options -busif]]}] "associate $options"
}
stub ipx::get_memory_maps {} {-of_objects} 1 1 { ipx_of $options; expr {[lindex $rest 0] in $::maps ? [list map [lindex $rest 0]] : ""} }
stub ipx::add_memory_map {} {} 2 2 { lappend ::maps [lindex $rest 0] }
stub ipx::get_address_blocks {} {-of_objects} 1 1 {
  ipx_of $options
  expr {[lindex $rest 0] in $::blocks ? [list block [lindex $rest 0]] : ""}
}
stub ipx::add_address_block {} {} 2 2 { need [expr {[lindex $rest 1] ne ""}] "of no map"; lappend ::blocks [lindex $rest 0] }
stub ipx::create_xgui_files {} {} 1 1 {}
stub ipx::update_checksums {} {} 1 1 {}
stub ipx::check_integrity {} {} 1 1 {
  need [expr {[dict get $::values {block reg0} range] == 4096}] "the registers are no page"
  if {[choice STUB_NO_MAP 0]} {
    need [expr {[dict get $::values {interface s_axil} slave_memory_map_ref] eq "s_axil"}] "s_axil has no memory map"
  }
  foreach name {name version description} { need [dict exists $::values {core vta} $name] "the core has no $name" }
}
stub ipx::save_core {} {} 1 1 {
  set ip [dict get $::state ip]
  file mkdir [dict get $ip -root_dir]
  set file [open [file join [dict get $ip -root_dir] component.xml] w]
  set core [dict get $::values {core vta}]
  set vlnv [dict get $ip -vendor]:[dict get $ip -library]:[dict get $core name]:[dict get $core version]
  puts $file [list ip $vlnv $::interfaces]
  close $file
}

# ---- block designs. Of a cell: kind, properties; of a pin: {direction type}
proc ip {vlnv interfaces} { dict set ::catalog $vlnv $interfaces }
set catalog [dict create]
set cells [dict create]
set config [dict create]
set external {}
set nets {}
set links {}
set mapped {}

# Properties of the processors that scripts may set, with what they are before.
set defaults(processing_system7) {
  PCW_EN_CLK0_PORT 1 PCW_EN_RST0_PORT 1 PCW_FPGA0_PERIPHERAL_FREQMHZ 50 PCW_USE_FABRIC_INTERRUPT 0 PCW_IRQ_F2P_INTR 0
  PCW_USE_M_AXI_GP0 1 PCW_USE_M_AXI_GP1 0 PCW_USE_S_AXI_HP0 0 PCW_S_AXI_HP0_DATA_WIDTH 64 PCW_USE_S_AXI_ACP 0
  PCW_USE_DEFAULT_ACP_USER_VAL 0 PCW_UIPARAM_DDR_PARTNO {MT41J256M8 HX-15E} PCW_UIPARAM_DDR_BUS_WIDTH {32 Bit}
}
set defaults(zynq_ultra_ps_e) {
  PSU__FPGA_PL0_ENABLE 1 PSU__CRL_APB__PL0_REF_CTRL__FREQMHZ 100 PSU__USE__FABRIC__RST 1 PSU__USE__IRQ0 0 PSU__USE__IRQ1 0
  PSU__USE__M_AXI_GP0 1 PSU__USE__M_AXI_GP1 1 PSU__USE__M_AXI_GP2 1 PSU__MAXIGP0__DATA_WIDTH 128 PSU__USE__S_AXI_GP0 0
  PSU__USE__S_AXI_GP2 0 PSU__SAXIGP0__DATA_WIDTH 128 PSU__SAXIGP2__DATA_WIDTH 128
}
set defaults(smartconnect) {NUM_SI 2 NUM_MI 1}
set defaults(proc_sys_reset) {C_EXT_RST_WIDTH 4}
set defaults(vta) {}
set legal {
  PCW_S_AXI_HP0_DATA_WIDTH {32 64} PCW_UIPARAM_DDR_BUS_WIDTH {{16 Bit} {32 Bit}} PSU__MAXIGP0__DATA_WIDTH {32 64 128}
  PSU__SAXIGP0__DATA_WIDTH {32 64 128} PSU__SAXIGP2__DATA_WIDTH {32 64 128}
}
proc set_config {cell name value} {
  need [regsub {^CONFIG\.} $name {} name] "a cell has no property $name"
  set kind [dict get $::cells $cell]
  need [dict exists $::defaults($kind) $name] "$kind has no parameter $name"
  if {[dict exists $::legal $name]} { need [expr {$value in [dict get $::legal $name]}] "$name cannot be $value" }
  if {[regexp {(USE|_EN_|ENABLE|INTR$)} $name]} { need [expr {$value in {0 1}}] "$name is 0 or 1, not $value" }
  if {[regexp {FREQMHZ} $name]} { need [string is double -strict $value] "$name is no number: $value" }
  dict set ::config $cell $name $value
}
proc conf {cell name} { dict get $::config $cell $name }

# All pins of a cell, name to {direction type must}: type is clock, reset, irq, or axi; direction in, out, master, slave.
proc pins {cell} {
  set found [dict create]
  proc pin {name direction type {must 1}} { upvar found found; dict set found $name [list $direction $type $must] }
  switch [dict get $::cells $cell] {
    processing_system7 {
      pin DDR master ddr; pin FIXED_IO master io
      if {[conf $cell PCW_EN_CLK0_PORT]} { pin FCLK_CLK0 out clock }
      if {[conf $cell PCW_EN_RST0_PORT]} { pin FCLK_RESET0_N out reset }
      if {[conf $cell PCW_USE_FABRIC_INTERRUPT] && [conf $cell PCW_IRQ_F2P_INTR]} { pin IRQ_F2P in irq }
      foreach {use port direction} {
        PCW_USE_M_AXI_GP0 M_AXI_GP0 master PCW_USE_M_AXI_GP1 M_AXI_GP1 master PCW_USE_S_AXI_HP0 S_AXI_HP0 slave
        PCW_USE_S_AXI_ACP S_AXI_ACP slave
      } {
        if {[conf $cell $use]} { pin $port $direction axi; pin ${port}_ACLK in clock }
      }
    }
    zynq_ultra_ps_e {
      if {[conf $cell PSU__FPGA_PL0_ENABLE]} { pin pl_clk0 out clock }
      if {[conf $cell PSU__USE__FABRIC__RST]} { pin pl_resetn0 out reset }
      if {[conf $cell PSU__USE__IRQ0]} { pin pl_ps_irq0 in irq }
      foreach {use port clock direction} {
        M_AXI_GP0 M_AXI_HPM0_FPD maxihpm0_fpd_aclk master M_AXI_GP1 M_AXI_HPM1_FPD maxihpm1_fpd_aclk master
        M_AXI_GP2 M_AXI_HPM0_LPD maxihpm0_lpd_aclk master S_AXI_GP0 S_AXI_HPC0_FPD saxihpc0_fpd_aclk slave
        S_AXI_GP2 S_AXI_HP0_FPD saxihp0_fpd_aclk slave
      } {
        if {[conf $cell PSU__USE__$use]} { pin $port $direction axi; pin $clock in clock }
      }
    }
    smartconnect {
      pin aclk in clock; pin aresetn in reset
      for {set n 0} {$n < [conf $cell NUM_SI]} {incr n} { pin [format S%02d_AXI $n] slave axi }
      for {set n 0} {$n < [conf $cell NUM_MI]} {incr n} { pin [format M%02d_AXI $n] master axi }
    }
    proc_sys_reset {
      pin slowest_sync_clk in clock; pin ext_reset_in in reset
      foreach name {aux_reset_in mb_debug_sys_rst dcm_locked} { pin $name in other 0 }
      foreach name {peripheral_aresetn interconnect_aresetn} { pin $name out reset }
      foreach name {mb_reset bus_struct_reset peripheral_reset} { pin $name out high_reset 0 }
    }
    vta {
      dict for {name vlnv} [dict get $::catalog vtakit:user:vta:1.0] {
        switch -glob $vlnv {
          *:aximm:* { pin $name [expr {[string match s_* $name] ? "slave" : "master"}] axi }
          *:clock:* { pin $name in clock }
          *:reset:* { pin $name in reset }
          *:interrupt:* { pin $name out irq }
          default { error "an interface of kind $vlnv" }
        }
      }
    }
  }
  return $found
}
stub create_bd_design {} {} 1 1 {
  need_project
  set path [file join [file dirname [dict get $::state project]] vta.srcs sources_1 bd [lindex $rest 0] [lindex $rest 0].bd]
  file mkdir [file dirname $path]
  close [open $path w]
  dict lappend ::state files $path
}
stub create_bd_cell {} {-type -vlnv} 1 1 {
  need [expr {[dict get $options -type] eq "ip"}] "cells are ip"
  set vlnv [dict get $options -vlnv]
  set kind [lindex [split $vlnv :] 2]
  if {![string match xilinx.com:ip:* $vlnv]} { need [dict exists $::catalog $vlnv] "the catalog has no $vlnv" }
  need [info exists ::defaults($kind)] "the catalog has no $vlnv"
  dict set ::cells [lindex $rest 0] $kind
  dict set ::config [lindex $rest 0] $::defaults($kind)
  list cell [lindex $rest 0]
}
stub get_bd_cells {} {} 1 1 { need [dict exists $::cells [lindex $rest 0]] "no cell $rest"; list cell [lindex $rest 0] }
stub apply_bd_automation {} {-rule -config} 1 1 {
  set kind [dict get $::cells [lindex [lindex $rest 0] 1]]
  need [expr {[dict get $options -rule] eq "xilinx.com:bd_rule:$kind"}] "$kind has no rule [dict get $options -rule]"
  dict for {name value} [dict get $options -config] {
    need [expr {$name in {make_external apply_board_preset Master Slave}}] "the rule has no $name"
    if {$name eq "make_external"} {
      foreach port [split [string map {" " ""} $value] ,] { lappend ::external [lindex [lindex $rest 0] 1]/$port }
    }
    if {$name eq "apply_board_preset" && $value} { need [dict exists $::values [current_project] board_part] "no board" }
  }
}
proc find_pin {path types} {
  set cell [file dirname $path]
  need [dict exists $::cells $cell] "no cell $cell"
  set found [pins $cell]
  need [dict exists $found [file tail $path]] "$cell has no pin [file tail $path]"
  need [expr {[lindex [dict get $found [file tail $path]] 0] in $types}] "$path is of another kind"
  return $path
}
stub get_bd_pins {} {} 1 1 { find_pin [lindex $rest 0] {in out} }
stub get_bd_intf_pins {} {} 1 1 { find_pin [lindex $rest 0] {master slave} }
proc about {path} { dict get [pins [file dirname $path]] [file tail $path] }
stub connect_bd_net {} {-net} 2 99 {
  set drivers 0
  set types {}
  foreach path $rest {
    find_pin $path {in out}
    need [expr {$path ni [concat {*}$::nets]}] "$path has a net already"
    lassign [about $path] direction type
    incr drivers [expr {$direction eq "out"}]
    lappend types $type
  }
  need [expr {$drivers == 1}] "a net of $rest has $drivers drivers"
  need [expr {[llength [lsort -unique $types]] == 1}] "a net joins $types"
  lappend ::nets $rest
}
stub connect_bd_intf_net {} {-intf_net} 2 2 {
  set directions {}
  foreach path $rest {
    find_pin $path {master slave}
    need [expr {$path ni [concat {*}$::links]}] "$path is joined already"
    lappend directions [lindex [about $path] 0]
    need [expr {[lindex [about $path] 1] eq "axi"}] "$path is no AXI"
  }
  # The inside of an interconnect is between its own pins; here master meets slave.
  need [expr {[lsort $directions] eq {master slave}}] "$rest are both [lindex $directions 0]"
  lappend ::links $rest
}
stub get_bd_addr_spaces {} {} 1 1 { need [expr {[lindex $rest 0] in {ps/Data vta_0/m_axi}}] "no address space $rest"; list space [lindex $rest 0] }
# Segments of each processor's memory ports, as Vivado calls them.
set segments {
  ps/S_AXI_HP0/HP0_DDR_LOWOCM S_AXI_HP0 ps/S_AXI_ACP/ACP_DDR_LOWOCM S_AXI_ACP
  ps/SAXIGP2/HP0_DDR_LOW S_AXI_HP0_FPD ps/SAXIGP0/HPC0_DDR_LOW S_AXI_HPC0_FPD
}
stub get_bd_addr_segs {} {} 1 1 {
  set name [lindex $rest 0]
  if {$name ne "vta_0/s_axil/reg0"} {
    need [dict exists $::segments $name] "no segment $name"
    find_pin ps/[dict get $::segments $name] {slave}
    set port ps/[dict get $::segments $name]
    need [expr {$port in [concat {*}$::links]}] "$port is not joined"
  }
  list segment $name
}
stub assign_bd_address {-force} {-offset -range -target_address_space} 1 1 {
  set space [lindex [dict get $options -target_address_space] 1]
  set segment [lindex [lindex $rest 0] 1]
  if {$space eq "ps/Data"} {
    need [expr {$segment eq "vta_0/s_axil/reg0"}] "$segment in $space"
    set windows {processing_system7 {0x40000000 0x80000000} zynq_ultra_ps_e {0xa0000000 0xb0000000}}
    lassign [dict get $windows [dict get $::cells ps]] low high
    need [expr {[dict get $options -range] eq "4K" && [dict get $options -offset] % 4096 == 0}] "a range of $options"
    need [expr {$low <= [dict get $options -offset] && [dict get $options -offset] < $high}] "the port has no such addresses"
  } else {
    need [expr {$segment ne "vta_0/s_axil/reg0"}] "$segment in $space"
  }
  lappend ::mapped $space
}
stub validate_bd_design {} {} 0 0 {
  foreach cell [dict keys $::cells] {
    dict for {name about} [pins $cell] {
      lassign $about direction type must
      set path $cell/$name
      if {$must && $path ni [concat {*}$::nets {*}$::links $::external]} {
        if {$direction in {in master slave} || $type in {irq}} { error "the pin $path is open" }
      }
    }
  }
  need [expr {[lsort $::mapped] eq {ps/Data vta_0/m_axi}}] "addresses are not assigned: $::mapped"
}
stub save_bd_design {} {} 0 0 {}
stub make_wrapper {-top} {-files} 0 0 {
  set path [file join [file dirname [dict get $::state project]] vta.gen sources_1 bd system hdl system_wrapper.v]
  need [string match *.bd [lindex [dict get $options -files] 1]] "make_wrapper of [dict get $options -files]"
  file mkdir [file dirname $path]
  close [open $path w]
  return $path
}

# ---- runs
stub reset_run {} {} 1 1 { need [expr {[lindex $rest 0] eq "synth_1"}] "no run $rest" }
stub launch_runs {} {-to_step -jobs} 1 1 {
  need [expr {[lindex $rest 0] eq "impl_1" && [dict get $options -to_step] eq "write_bitstream"}] "launch $rest $options"
  set folder [file dirname [dict get $::state project]]
  file mkdir [file join $folder vta.runs impl_1] [file join $folder vta.gen sources_1 bd system hw_handoff]
  close [open [file join $folder vta.runs impl_1 system_wrapper.bit] w]
  close [open [file join $folder vta.gen sources_1 bd system hw_handoff system.hwh] w]
}
stub wait_on_run {} {} 1 1 {}
stub get_runs {} {} 1 1 { list run [lindex $rest 0] }
stub get_property {} {} 2 2 {
  switch [lindex $rest 0] {
    PROGRESS { choice STUB_PROGRESS 100% }
    STATUS { return "place_design ERROR" }
    DIRECTORY { file join [file dirname [dict get $::state project]] vta.runs impl_1 }
    SLACK { choice STUB_SLACK 0.5 }
    default { error "no property [lindex $rest 0]" }
  }
}
stub open_run {} {} 1 1 {}
stub report_utilization {-hierarchical} {-file} 0 0 {}
stub report_timing_summary {} {-file} 0 0 {}
stub get_timing_paths {-setup} {-max_paths} 0 0 { list path worst }
stub write_hw_platform {-fixed -include_bit -force} {-file} 0 0 {}

if {[catch {source [lindex $argv 0]} message]} {
  puts stderr $message
  exit 1
}
