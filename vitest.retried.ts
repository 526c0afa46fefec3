import type { Reporter, TestModule } from 'vitest/node'

/** Names the tests that passed only when they were run again: they are to be mended. */
export class RetriedTests implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    const retried = modules.flatMap((module) =>
      [...module.children.allTests()]
        .filter((test) => (test.diagnostic()?.retryCount ?? 0) > 0 && test.ok())
        .map((test) => `${module.relativeModuleId} > ${test.fullName}`),
    )
    if (retried.length === 0) return
    console.log(`Passed only when run again:\n${retried.map((name) => `  ${name}`).join('\n')}\n`)
  }
}
