# Builds the bitstream: vta.bit, vta.hwh and vta.xsa. Written by `vtakit vivado`; project.tcl comes first.
set here [file dirname [file normalize [info script]]]
source [file join $here settings.tcl]

open_project [file join $here build project vta.xpr]
reset_run synth_1
launch_runs impl_1 -to_step write_bitstream -jobs $jobs
wait_on_run impl_1
set run [get_runs impl_1]
if {[get_property PROGRESS $run] ne "100%"} {
  error "Vivado did not finish: [get_property STATUS $run]; its log is [file join [get_property DIRECTORY $run] runme.log]"
}
open_run impl_1
report_utilization -hierarchical -file [file join $here utilization.rpt]
report_timing_summary -file [file join $here timing.rpt]
set slack [get_property SLACK [get_timing_paths -setup -max_paths 1]]
if {$slack < 0} {
  error "the slowest path is $slack ns too long for $core_mhz MHz; it is in timing.rpt: write the project for a lower --mhz"
}
file copy -force [file join [get_property DIRECTORY $run] system_wrapper.bit] [file join $here vta.bit]
# PYNQ reads addresses and clocks from the .hwh file.
set found [glob -nocomplain [file join $here build project vta.gen sources_1 bd system hw_handoff system.hwh]]
if {$found eq ""} {
  error "Vivado wrote no system.hwh into build/project/vta.gen"
}
file copy -force [lindex $found 0] [file join $here vta.hwh]
write_hw_platform -fixed -include_bit -force -file [file join $here vta.xsa]
close_project
