// The harness of the RTL simulator, with one mutant switched on, and a bound on every run, since mutants hang.

#define vta_open vta_open_original
#include "../../sim/rtl/harness.cpp"
#undef vta_open

namespace {
uint16_t chosen = 0;
uint64_t bound = ~0ull;
}  // namespace

extern "C" {

void vta_mutate(uint16_t mutant, uint64_t max_cycles) { chosen = mutant, bound = max_cycles; }

Model* vta_open(const Settings* settings) {
    Settings bounded = *settings;
    bounded.max_cycles = bounded.max_cycles < bound ? bounded.max_cycles : bound;
    Model* model = vta_open_original(&bounded);
    model->pins.IN(mutant) = chosen;
    return model;
}

}  // extern "C"
