/**
 * How many inputs a generated test tries: half of them, or all where `OSMOSIS_TESTS_ALL_RUNS` is set, as in the nightly
 * run of `.ci/run all`.
 *
 * @param all - enough to find a fault of the kind that the test looks for nearly every time
 */
export function runs(all: number): number {
  return process.env['OSMOSIS_TESTS_ALL_RUNS'] ? all : Math.ceil(all / 2)
}
