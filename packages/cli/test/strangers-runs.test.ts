import { cpSync, existsSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { pathToFileURL } from 'node:url'

import { beforeEach, describe, expect, it } from 'vitest'

import { core } from './grader-modules.ts'
import { run, start, workIn } from './in-process.ts'
import { temporaryFolder } from './osmosis.ts'
import { storedItem, storedManifest, storeRun } from './stored-runs.ts'
import { evalConfig, temporaryWorkspace } from './temporary-workspace.ts'

let root = ''
let marker = ''
beforeEach(() => {
  root = temporaryWorkspace({
    'rollouts/own/main.ts': grader('ctx.setReward(0.5)'),
    'configs/eval/own.toml': evalConfig(
      'own',
      '[env]\nLOCALE = "fr"\n\n[secrets]\nrequired = []\n',
    ),
  })
  marker = path.join(temporaryFolder(), 'was-here')
  workIn(root)
})

function grader(body: string): string {
  return `import { writeFileSync } from 'node:fs'
    import { Grader } from '${core}'
    export class Own extends Grader { async grade(ctx) { ${body} } }`
}

/** Code that must not run: it leaves a file when it is loaded. */
function harmful(file: string): string {
  mkdirSync(path.dirname(file), { recursive: true })
  writeFileSync(file, `${grader('ctx.setReward(1)')}\nwriteFileSync(${JSON.stringify(marker)}, '')`)
  return file
}

interface Stranger {
  /** The folder of runs. */
  readonly runs: string
  /** Named by the manifest. */
  readonly entrypoint: unknown
  /** Where the command starts. Default: in the workspace. */
  readonly startedIn?: string
  readonly provenanceRoot?: string
}

async function storeStranger({ runs, entrypoint, provenanceRoot }: Stranger): Promise<string> {
  const code = { rollout: 'own', entrypoint: entrypoint as string }
  const manifest = storedManifest(1, code)
  const provenance = { ...manifest.provenance, ...(provenanceRoot && { root: provenanceRoot }) }
  return storeRun(runs, [storedItem(0, 'zero', 1)], { ...manifest, run_name: 'r', provenance })
}

const outside = (name: string): string => harmful(path.join(temporaryFolder(), name))
const within = (name: string): string => harmful(path.join(root, name))

const attacks: [name: string, prepare: () => Stranger][] = [
  ['an absolute path', () => ({ runs: temporaryFolder(), entrypoint: outside('evil.ts') })],
  [
    'a path upwards',
    () => ({ runs: temporaryFolder(), entrypoint: path.relative(root, outside('evil.ts')) }),
  ],
  [
    'a path through an own folder',
    () => {
      within('out/evil.ts')
      return { runs: path.join(root, 'out'), entrypoint: 'rollouts/../out/evil.ts' }
    },
  ],
  [
    'a file: URL',
    () => ({ runs: temporaryFolder(), entrypoint: pathToFileURL(outside('evil.ts')).href }),
  ],
  [
    'a file: URL of the workspace',
    () => ({ runs: path.join(root, 'out'), entrypoint: pathToFileURL(within('out/evil.ts')).href }),
  ],
  [
    'a data: URL',
    () => ({
      runs: temporaryFolder(),
      entrypoint: `data:text/javascript,import('${outside('evil.mjs')}')`,
    }),
  ],
  [
    'the name of a package',
    () => {
      within('vendor/node_modules/evil/index.js')
      return { runs: temporaryFolder(), entrypoint: 'evil' }
    },
  ],
  [
    'a file of a package',
    () => {
      within('vendor/node_modules/evil/index.js')
      return { runs: temporaryFolder(), entrypoint: 'vendor/node_modules/evil/index.js' }
    },
  ],
  [
    'a file beside the journal',
    () => {
      within('.osmosis/evals/r/evil.ts')
      return { runs: path.join(root, '.osmosis/evals'), entrypoint: '.osmosis/evals/r/evil.ts' }
    },
  ],
  [
    'a file beside the journal, without its extension',
    () => {
      within('.osmosis/evals/r/evil.ts')
      return { runs: path.join(root, '.osmosis/evals'), entrypoint: '.osmosis/evals/r/evil' }
    },
  ],
  [
    'a file in the folder of another run',
    () => {
      within('.osmosis/evals/other/evil.ts')
      return { runs: temporaryFolder(), entrypoint: '.osmosis/evals/other/evil.ts' }
    },
  ],
  [
    'a file in a folder around the run',
    () => {
      within('downloads/evil.ts')
      return { runs: path.join(root, 'downloads/some/runs'), entrypoint: 'downloads/evil.ts' }
    },
  ],
  [
    'a file in the same download',
    () => {
      within('downloads/code/evil.ts')
      return { runs: path.join(root, 'downloads/runs'), entrypoint: 'downloads/code/evil.ts' }
    },
  ],
  [
    'other capitals',
    () => {
      within('out/r/evil.ts')
      return { runs: path.join(root, 'out'), entrypoint: 'OUT/R/EVIL.ts' }
    },
  ],
  [
    'a link in the workspace to another folder',
    () => {
      symlinkSync(outside('evil.ts'), path.join(root, 'rollouts/link.ts'))
      return { runs: temporaryFolder(), entrypoint: 'rollouts/link.ts' }
    },
  ],
  [
    'a link in the workspace to the folder of the run',
    () => {
      symlinkSync(within('.osmosis/evals/r/evil.ts'), path.join(root, 'rollouts/link.ts'))
      return { runs: path.join(root, '.osmosis/evals'), entrypoint: 'rollouts/link.ts' }
    },
  ],
  [
    'a folder that is a link',
    () => {
      symlinkSync(path.dirname(outside('evil.ts')), path.join(root, 'rollouts/linked'))
      return { runs: temporaryFolder(), entrypoint: 'rollouts/linked/evil.ts' }
    },
  ],
  [
    'a link beside the journal',
    () => {
      mkdirSync(path.join(root, 'out/r'), { recursive: true })
      symlinkSync(outside('evil.ts'), path.join(root, 'out/r/link.ts'))
      return { runs: path.join(root, 'out'), entrypoint: 'out/r/link.ts' }
    },
  ],
  [
    'a workspace of its own in its provenance',
    () => {
      const folder = path.dirname(outside('main.ts'))
      return { runs: temporaryFolder(), entrypoint: 'main.ts', provenanceRoot: folder }
    },
  ],
  [
    'a workspace around the run',
    () => {
      const folder = temporaryFolder()
      harmful(path.join(folder, 'rollouts/evil/main.ts'))
      mkdirSync(path.join(folder, 'data'))
      return { runs: path.join(folder, '.osmosis/evals'), entrypoint: 'rollouts/evil/main.ts' }
    },
  ],
  [
    'a workspace inside of the run, in which the command starts',
    () => {
      const runs = temporaryFolder()
      harmful(path.join(runs, 'r/rollouts/evil/main.ts'))
      mkdirSync(path.join(runs, 'r/data'))
      return { runs, entrypoint: 'rollouts/evil/main.ts', startedIn: path.join(runs, 'r') }
    },
  ],
  [
    'a folder without a workspace, in which the command starts',
    () => {
      const runs = temporaryFolder()
      harmful(path.join(runs, 'evil.ts'))
      return { runs, entrypoint: 'evil.ts', startedIn: runs }
    },
  ],
  [
    'percent signs',
    () => ({
      runs: temporaryFolder(),
      entrypoint: path.relative(root, outside('evil.ts')).replaceAll('..', '%2e%2e'),
    }),
  ],
  ['an export', () => ({ runs: temporaryFolder(), entrypoint: `${outside('evil.ts')}:Own` })],
  [
    'a zero byte',
    () => ({ runs: temporaryFolder(), entrypoint: `rollouts/own/main.ts\0${outside('evil.ts')}` }),
  ],
  ['a query', () => ({ runs: temporaryFolder(), entrypoint: `${outside('evil.ts')}?x` })],
  ['a folder', () => ({ runs: temporaryFolder(), entrypoint: 'rollouts/own' })],
  ['nothing', () => ({ runs: temporaryFolder(), entrypoint: '' })],
  ['a number', () => ({ runs: temporaryFolder(), entrypoint: 7 })],
  ['a list', () => ({ runs: temporaryFolder(), entrypoint: [outside('evil.ts')] })],
]

describe('a run folder of a stranger', () => {
  it.each(attacks)('runs no code that its manifest names as %s', async (_name, prepare) => {
    const stranger = prepare()
    const folder = temporaryFolder()
    const stored = await storeStranger({ ...stranger, runs: folder })
    mkdirSync(path.join(stranger.runs, 'r'), { recursive: true })
    cpSync(stored, path.join(stranger.runs, 'r'), { recursive: true })
    workIn(stranger.startedIn ?? root)
    const location = path.join(stranger.runs, 'r')
    expect(await run(['eval', 'regrade', location])).toMatchObject({
      code: 2,
      stdout: '',
      stderr: expect.stringContaining('Name a grader with --grader <file>.') as string,
    })

    const view = start(['eval', 'view', location])
    const [, base = '', token = ''] = await view.printed(/(http:\S+?)#token=([\w-]+)\S*/)
    const request = async (what: string, init: RequestInit = {}) =>
      fetch(new URL(`api/runs/r${what}`, base), {
        ...init,
        headers: { authorization: `Bearer ${token}` },
      })
    expect(await (await request('')).json()).toMatchObject({ canRegrade: false })
    expect((await request('/regrade', { method: 'POST' })).status).toBe(404)
    await view.end()
    expect(existsSync(marker)).toBe(false)
  })

  it('is graded by the entrypoint of this workspace that it names, also on the page', async () => {
    const runs = temporaryFolder()
    const location = await storeStranger({ runs, entrypoint: 'rollouts/own/main.ts' })
    const { code, stdout } = await run(['eval', 'regrade', location])
    expect([code, stdout]).toEqual([0, expect.stringContaining('mean reward 1 → 0.5')])
    const view = start(['eval', 'view', location])
    const [, base = '', token = ''] = await view.printed(/(http:\S+?)#token=([\w-]+)\S*/)
    const headers = { authorization: `Bearer ${token}` }
    const answer = await fetch(new URL('api/runs/r', base), { headers })
    expect(await answer.json()).toMatchObject({ canRegrade: true })
    await view.end()
  })

  it('sets no variable of the grader; those of the config in this workspace are set', async () => {
    const names = `
      NODE_OPTIONS NODE_PATH NODE_EXTRA_CA_CERTS node_options TSX_TSCONFIG_PATH LD_PRELOAD
      LD_LIBRARY_PATH LD_AUDIT DYLD_INSERT_LIBRARIES GCONV_PATH PYTHONPATH PYTHONSTARTUP
      BASH_ENV ENV PERL5OPT RUBYOPT IFS SHELL npm_config_registry npm_config_script_shell
      GIT_SSH_COMMAND HOME TMPDIR HTTPS_PROXY http_proxy ALL_PROXY OPENAI_BASE_URL
      SSL_CERT_FILE OSMOSIS_ENV_FILE OSMOSIS_CHAT_COMPLETIONS_URL __proto__ HARMLESS LOCALE`
      .trim()
      .split(/\s+/)
    const env = Object.fromEntries([...names, 'PATH'].map((name) => [name, "stranger's"]))
    const manifest = storedManifest(1, { entrypoint: 'rollouts/own/main.ts' }, { env })
    const location = await storeRun(temporaryFolder(), [storedItem(0, 'zero', 1)], {
      ...manifest,
      provenance: { ...manifest.provenance, config: 'configs/eval/own.toml' },
    })
    const show = path.join(root, 'show.ts')
    writeFileSync(
      show,
      'export const show = () => { throw new Error(JSON.stringify(process.env)) }',
    )
    const { code, stdout, stderr } = await run(['eval', 'regrade', location, '--grader', show])
    expect([code, stdout]).toEqual([1, expect.stringContaining('"LOCALE":"fr"')])
    expect(stdout).not.toContain("stranger's")
    expect(stderr).toContain(`left out: ${names.slice(0, -1).join(', ')}, PATH.`)
  })
})
