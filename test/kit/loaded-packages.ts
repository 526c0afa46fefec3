import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

/**
 * Runs the body of a workflow in a process of its own, whose policy calls the tool `look` once, and
 * resolves with how many files of OpenTelemetry were loaded with `require`, as this SDK does it.
 *
 * @param folder - where imports are looked up
 * @param imports - lines at the top of the program
 * @param body - code of `async (tool) => …`, where `tool` gives the result of the tool
 */
export async function telemetryFilesOf(
  folder: string,
  imports: string,
  body: string,
): Promise<number> {
  const program = `
    import { createRequire } from 'node:module'
    import { startPolicyServer } from '@osmosis/testing'
    import { execute } from '${import.meta.resolve('./index.ts')}'
    ${imports}
    const call = { id: 'c', name: 'look', arguments: '{}' }
    const server = await startPolicyServer([{ toolCalls: [call] }, 'done'])
    let ran = 0
    const tool = async () => { ran += 1; return 'seen' }
    const run = async (tool) => { ${body} }
    const { workflow } = await execute(server, () => run(tool))
    await server.close()
    const loaded = Object.keys(createRequire(import.meta.url).cache)
    const files = loaded.filter((file) => file.includes('opentelemetry'))
    console.log(JSON.stringify([workflow.status, ran, files.length]))
    process.exit()`
  const args = ['--input-type=module-typescript', '--eval', program]
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: folder })
  const [status, ran, files] = JSON.parse(stdout) as [string, number, number]
  if (status !== 'success' || ran !== 1) throw new Error(`the rollout did not run: ${stdout}`)
  return files
}
