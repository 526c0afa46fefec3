import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'

import { describe, expect, it } from 'vitest'

import { inWorkspace, run } from './in-process.ts'
import { temporaryFolder } from './osmosis.ts'

inWorkspace()

/** A module with a policy that always says this. */
function policyThatSays(text: string, folder: string): string {
  const file = path.join(folder, 'policy.ts')
  writeFileSync(
    file,
    `import { scriptedPolicy } from '@osmosis/controller'
export const policy = scriptedPolicy(() => ${JSON.stringify(text)})
`,
  )
  return file
}

describe('eval run in a job of GitHub Actions', () => {
  it('appends its result to the summary of the job, also when the gate fails', async () => {
    const output = temporaryFolder()
    const summary = path.join(output, 'summary.md')
    writeFileSync(summary, '# Of an earlier step\n\n')
    const flags = ['--name', 'first', '--output', output, '--quiet', '--min-pass-rate', '0.8']
    const args = ['eval', 'run', 'configs/eval/echo.toml', ...flags]
    const { code, stderr } = await run(args, { GITHUB_STEP_SUMMARY: summary })
    expect([code, stderr]).toEqual([3, expect.stringContaining('The pass rate is 75.0 %')])
    const [, own = ''] = readFileSync(summary, 'utf8').split('# Of an earlier step\n\n')
    expect(own).toMatch(
      /^### first: 75\.0 % passed\n\n\| \S+ \| {2}\| {2}\|\n\| --- \| ---: \| --- \|\n/,
    )
    expect(own).toMatch(/^\| Reward \| 0\.75 \| 8 rollouts, 4 rows \|$/m)
    expect(own).toMatch(/^\| Pass rate \| 75\.0 % \| 6 of 8 have a reward of 1 or more \|$/m)
    expect(own).toMatch(
      /^2 rollouts did not pass\. `osmosis eval show \S+first 2\.1` shows one:\n\n- 2\.1: `reward 0, and 1 passes` `I do not know[^`]*`\n- 2\.2: .*\n\n$/m,
    )
  })

  it('shows what a policy says as code, and names at most ten rollouts', async () => {
    const output = temporaryFolder()
    const summary = path.join(output, 'summary.md')
    const policy = policyThatSays('@octocat <img src=x> ``` | [x](y)\n# Big', output)
    const flags = ['--policy', policy, '--n', '3', '--output', output, '--quiet']
    const args = ['eval', 'run', 'configs/eval/echo.toml', ...flags]
    const { code } = await run(args, { GITHUB_STEP_SUMMARY: summary })
    expect(code).toBe(0)
    const lines = readFileSync(summary, 'utf8').split('\n')
    expect(lines.filter((line) => line.startsWith('- '))).toEqual([
      ...[0, 1, 2, 3]
        .flatMap((row) =>
          [1, 2, 3].map(
            (attempt) =>
              `- ${row}.${attempt}: \`reward 0, and 1 passes\` \`\`\`\` @octocat <img src=x> \`\`\` | [x](y) # Big \`\`\`\``,
          ),
        )
        .slice(0, 10),
      '- and 2 more',
    ])
  })

  it('says that not all rollouts have ended, and why', async () => {
    const output = temporaryFolder()
    const summary = path.join(output, 'summary.md')
    const what = ['-m', 'rollouts/agent-loops/faulty.ts:choosy', '-d', 'data/sums.jsonl']
    const flags = ['--policy', 'adding', '--fail-on-error', '1', '--max-in-flight', '1', '--quiet']
    const args = ['eval', 'run', ...what, ...flags, '--output', output]
    const { code } = await run(args, { GITHUB_STEP_SUMMARY: summary })
    expect(code).toBe(1)
    expect(readFileSync(summary, 'utf8')).toMatch(
      /^\*\*\d of \d rollouts have ended\.\*\* .*failed/m,
    )
  })

  it('compares with the baseline of the run', async () => {
    const output = temporaryFolder()
    const summary = path.join(output, 'summary.md')
    const flags = [
      '--baseline-policy',
      policyThatSays('No.', output),
      '--output',
      output,
      '--quiet',
    ]
    const args = ['eval', 'run', 'configs/eval/echo.toml', ...flags]
    await run(args, { GITHUB_STEP_SUMMARY: summary })
    expect(readFileSync(summary, 'utf8')).toMatch(/^Against the baseline \(\S+\): \*\*/m)
  })

  it('only warns when the file cannot be written, and writes nothing for a dry run', async () => {
    const output = temporaryFolder()
    const args = ['eval', 'run', 'configs/eval/echo.toml', '--output', output, '--limit', '1']
    const summary = path.join(output, 'nowhere/summary.md')
    const { code, stderr } = await run([...args, '--quiet'], { GITHUB_STEP_SUMMARY: summary })
    expect(code).toBe(0)
    expect(stderr).toMatch(/^warning: Cannot append the result to GITHUB_STEP_SUMMARY, .*ENOENT/m)
    const dry = path.join(output, 'summary.md')
    await run([...args, '--fresh', '--dry-run'], { GITHUB_STEP_SUMMARY: dry })
    expect(existsSync(dry)).toBe(false)
  })
})
