import type { Reporter, TestModule } from 'vitest/node'

/** Prints at the end which files took longest, and which tests were skipped because something is missing. */
export class TestSummary implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    const slowest = modules
      .map((module) => ({ name: module.relativeModuleId, ms: module.diagnostic().duration }))
      .toSorted((a, b) => b.ms - a.ms)
      .slice(0, 10)
    if (modules.length > 10) {
      const lines = slowest.map(
        ({ name, ms }) => `${(ms / 1000).toFixed(1).padStart(7)} s  ${name}`,
      )
      console.log(`\nThe slowest test files:\n${lines.join('\n')}`)
    }
    const needs = skippedByNeed(modules)
    if (needs.size === 0) return
    const lines = [...needs].map(([need, count]) => `  ${count} need ${need}`)
    console.log(`\nSkipped tests:\n${lines.join('\n')}`)
    if ([...needs.keys()].some((need) => !/^an?(other)? /.test(need))) {
      console.log('To install the programs on Debian or Ubuntu: bash .ci/programs')
    }
    console.log()
  }
}

/** Numbers of skipped tests by what their names say they need: "… (needs zsh)". */
function skippedByNeed(modules: readonly TestModule[]): Map<string, number> {
  const needs = new Map<string, number>()
  for (const module of modules) {
    for (const test of module.children.allTests('skipped')) {
      const need = /\(needs ([^)]+)\)/.exec(test.fullName)?.[1] ?? 'another version or platform'
      needs.set(need, (needs.get(need) ?? 0) + 1)
    }
  }
  return needs
}
