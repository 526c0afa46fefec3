import type { Reporter, TestModule } from 'vitest/node'

import { keepDurations } from './order.ts'

/**
 * Prints at the end which files took longest, which tests were skipped because something is missing, and which
 * failed. Failures come last, because a CI service may show only the end of a log.
 */
export class TestSummary implements Reporter {
  onTestRunEnd(
    modules: readonly TestModule[],
    unhandled: readonly { message: string; stack?: string }[],
  ): void {
    if (modules.length > 10) printSlowest(modules)
    keepDurations(modules)
    printSkipped(modules)
    printFailed([
      ...modules.flatMap(failuresOf),
      ...unhandled.map(
        ({ message, stack }) => `outside of tests: ${(stack ?? message).split('\n', 3).join('\n')}`,
      ),
    ])
  }
}

function printSlowest(modules: readonly TestModule[]): void {
  const lines = modules
    .map((module) => ({ name: module.relativeModuleId, ms: module.diagnostic().duration }))
    .toSorted((a, b) => b.ms - a.ms)
    .slice(0, 10)
    .map(({ name, ms }) => `${(ms / 1000).toFixed(1).padStart(7)} s  ${name}`)
  console.log(`\nThe slowest test files:\n${lines.join('\n')}`)
}

/** Numbers of skipped tests by what their names say they need: "… (needs zsh)". */
function printSkipped(modules: readonly TestModule[]): void {
  const needs = new Map<string, number>()
  for (const module of modules) {
    for (const test of module.children.allTests('skipped')) {
      const need = /\(needs ([^)]+)\)/.exec(test.fullName)?.[1]
      if (need !== undefined) needs.set(need, (needs.get(need) ?? 0) + 1)
    }
  }
  if (needs.size === 0) return
  const lines = [...needs].map(([need, count]) => `  ${count} need ${need}`)
  console.log(`\nSkipped tests:\n${lines.join('\n')}`)
  if ([...needs.keys()].some((need) => !/^an?(other)? /.test(need))) {
    console.log(
      'To install the programs on Debian or Ubuntu: bash .ci/programs; a Python with models: bash .ci/python-environment',
    )
  }
  console.log()
}

function failuresOf(module: TestModule): string[] {
  const file = module.relativeModuleId
  const suites = [module, ...module.children.allSuites()].flatMap((suite) =>
    suite.errors().map((error) => `${file}: ${firstLine(error.message)}`),
  )
  const tests = [...module.children.allTests('failed')].map(
    (test) =>
      `${file} > ${test.fullName}: ${firstLine(test.result().errors?.[0]?.message ?? 'no error was given')}`,
  )
  return [...suites, ...tests]
}

function printFailed(failures: readonly string[]): void {
  if (failures.length === 0) return
  console.log(`\nFailed:\n${failures.slice(0, 20).join('\n')}`)
  if (failures.length > 20) console.log(`and ${failures.length - 20} more`)
}

function firstLine(text: string): string {
  return text.split('\n', 1)[0] as string
}
