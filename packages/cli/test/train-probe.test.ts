import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'

import { expect } from 'vitest'

import { pythonWithTorch, temporaryFolder, withTorch } from '../../../test/kit/index.ts'
import { inWorkspace, run as osmosis } from './in-process.ts'
import { startOsmosis } from './osmosis.ts'

inWorkspace()
const { it } = withTorch()

const config = 'configs/training/doors.toml'

/** A Python without the packages of its system, but with stand-ins of these versions; the hub answers as `hub` does. */
async function pythonWith(packages: Readonly<Record<string, string>>, hub = ''): Promise<string> {
  const folder = await temporaryFolder()
  for (const [name, version] of Object.entries(packages)) {
    const info = path.join(folder, `${name}-${version}.dist-info`)
    for (const one of [info, path.join(folder, name)]) mkdirSync(one)
    writeFileSync(path.join(info, 'METADATA'), `Name: ${name}\nVersion: ${version}\n`)
    writeFileSync(path.join(folder, name, '__init__.py'), `raise ImportError('${name} was loaded')`)
  }
  const client = path.join(folder, 'huggingface_hub')
  mkdirSync(client)
  writeFileSync(path.join(client, 'errors.py'), hubErrors)
  writeFileSync(
    path.join(client, '__init__.py'),
    `${hubClient}\n        ${hub || hubWith('model.safetensors')}\n`,
  )
  const python = path.join(folder, 'python')
  writeFileSync(python, `#!/bin/sh\nPYTHONPATH=${folder} exec ${pythonWithTorch()} -S "$@"\n`)
  chmodSync(python, 0o755)
  return python
}

const hubErrors =
  'class RepositoryNotFoundError(Exception): pass\nclass HFValidationError(Exception): pass'
const hubClient = `from types import SimpleNamespace
from .errors import *
constants = SimpleNamespace(ENDPOINT="https://hub")
def try_to_load_from_cache(name, file):
    return "/cache" if name == "known/model" else None
class HfApi:
    def model_info(self, name, timeout):`

/** The answer of a hub that has these files of a model. */
function hubWith(...files: readonly string[]): string {
  const siblings = files.map((name) => `SimpleNamespace(rfilename="${name}")`)
  return `return SimpleNamespace(siblings=[${siblings.join(', ')}])`
}

const whole = { torch: '2.9.0', transformers: '5.1.0', peft: '0.21.0' }

/** A folder with files of a model. */
async function modelWith(files: Readonly<Record<string, string>>): Promise<string> {
  const folder = await temporaryFolder()
  for (const [name, text] of Object.entries(files)) writeFileSync(path.join(folder, name), text)
  return folder
}

const kind = { 'config.json': '{"model_type": "qwen3"}' }
/** A file of tensors begins with the length of its head. */
const weights = { 'model.safetensors': '\u0002\0\0\0\0\0\0\0{}' }
const tokenizer = { 'tokenizer.json': '{}' }

async function trainWith(...flags: readonly string[]): Promise<string> {
  const output = await temporaryFolder()
  const { code, stderr } = await osmosis(['train', 'local', config, '-o', output, ...flags])
  expect(code, `it said ${stderr}`).toBeGreaterThan(0)
  expect(stderr).not.toMatch(/Traceback|was loaded|It printed last/)
  return stderr
}

it('a logger that is not installed: the message names the command that installs it', async () => {
  const stderr = await trainWith('--python', await pythonWith(whole), '--log', 'wandb')
  expect(stderr).toMatch(/--log wandb needs the package wandb, .*python\S* -m pip install wandb/)
})

it('no uv: the message names the command that installs it', async () => {
  const [output, PATH] = [await temporaryFolder(), '/nowhere']
  const { stderr } = await startOsmosis(['train', 'local', config, '-o', output], { PATH }).finished
  expect(stderr).toContain('curl -LsSf https://astral.sh/uv/install.sh | sh')
})

it.each([
  [
    'a Python that is not there',
    async () => '/nowhere/python',
    /\/nowhere\/python does not exist\. Check/,
  ],
  [
    'a path through a file',
    async () => path.join(await modelWith({ python: '' }), 'python/bin/python'),
    /python\/bin\/python does not exist\. Check/,
  ],
  ['a folder', () => temporaryFolder(), /is a folder: pass --python .*\/bin\/python/],
  [
    'a file that cannot run',
    async () => path.join(await modelWith({ python: '' }), 'python'),
    /cannot be run .*chmod \+x/,
  ],
  [
    'no torch',
    () => pythonWith({}),
    /has no torch, transformers, peft\. (Make|Install).* install 'torch>=2.4'/,
  ],
  ['no peft', () => pythonWith({ torch: '2.9.0', transformers: '5.1.0' }), /has no peft\./],
  [
    'an old torch',
    () => pythonWith({ ...whole, torch: '1.13.0a0' }),
    /has torch 1\.13\.0a0, which is too old/,
  ],
  ['an old peft', () => pythonWith({ ...whole, peft: '0.9.0' }), /has peft 0\.9\.0, which/],
  [
    'one that is old and others that are missing',
    () => pythonWith({ torch: '2.1.0' }),
    /has no transformers, peft and has torch 2\.1\.0, which is too old/,
  ],
])('%s: the message names the command that repairs it', async (_, python, message) => {
  expect(await trainWith('--python', await python())).toMatch(message)
})

const down = 'raise OSError("no route")'
const unknown = 'raise RepositoryNotFoundError'

it.each([
  [
    'a folder that is missing',
    async () => './models/mine',
    '',
    /The folder .* does not exist\. .*hf download Qwen/,
  ],
  [
    'a file',
    () => modelWith({ 'm.bin': '' }).then((at) => path.join(at, 'm.bin')),
    '',
    /m\.bin is a file/,
  ],
  [
    'a GGUF file',
    () => modelWith({ 'm.gguf': '' }).then((at) => path.join(at, 'm.gguf')),
    '',
    /m\.gguf has a model in GGUF, .*hf download/,
  ],
  ['a folder of GGUF files', () => modelWith({ 'm.gguf': '' }), '', /in GGUF, .*hf download/],
  [
    'a GGUF file beside a config',
    () => modelWith({ ...kind, ...tokenizer, 'm.gguf': '' }),
    '',
    /in GGUF, .*hf download/,
  ],
  [
    'a GGUF file beside a config that names no model',
    () => modelWith({ 'config.json': '{}', 'm.GGUF': '' }),
    '',
    /in GGUF, .*hf download/,
  ],
  [
    'a GGUF file beside weights, without a tokenizer',
    () => modelWith({ ...kind, ...weights, 'm.gguf': '' }),
    '',
    /has no tokenizer/,
  ],
  ['an empty folder', () => modelWith({}), '', /config\.json is missing\. .*hf download/],
  [
    'an adapter',
    () => modelWith({ 'adapter_config.json': '{"base_model_name_or_path": "Qwen/Base"}' }),
    '',
    /has a LoRA adapter, not a model\. .*--model Qwen\/Base/,
  ],
  [
    'a config that was cut off',
    () => modelWith({ 'config.json': '{' }),
    '',
    /config\.json cannot be read: .*hf download/,
  ],
  [
    'a config of nothing',
    () => modelWith({ 'config.json': '{}' }),
    '',
    /model_type is missing\. .*hf download/,
  ],
  ['a config alone', () => modelWith(kind), '', /has no weights: .*hf download/],
  [
    'weights that were cut off',
    () => modelWith({ ...kind, 'model.safetensors': '\u0002\0\0\0\0\0\0\0' }),
    '',
    /model\.safetensors is cut off or damaged\. .*hf download/,
  ],
  [
    'weights of which a part is missing',
    () =>
      modelWith({
        ...kind,
        ...weights,
        'model.safetensors.index.json': '{"weight_map": {"a": "b.safetensors"}}',
      }),
    '',
    /b\.safetensors is missing\. .*hf download/,
  ],
  [
    'a folder without tokenizer',
    () => modelWith({ ...kind, ...weights }),
    '',
    /has no tokenizer: .*hf download .* tokenizer\.json/,
  ],
  [
    'a folder without chat template',
    () => modelWith({ ...kind, ...weights, ...tokenizer }),
    '',
    /has no chat template: .*hf download/,
  ],
  [
    'a file of the tokenizer that was cut off',
    () => modelWith({ ...kind, ...weights, ...tokenizer, 'tokenizer_config.json': '{' }),
    '',
    /tokenizer_config\.json cannot be read: .*hf download/,
  ],
  [
    'a name without network',
    async () => 'Qwen/Other',
    down,
    /does not answer \(OSError\)\. .*hf download Qwen\/Other/,
  ],
  [
    'a name that the hub does not know',
    async () => 'Qwen/Other',
    unknown,
    /neither a folder .*hf auth login/,
  ],
  [
    'a name whose files are GGUF',
    async () => 'Qwen/Other-GGUF',
    hubWith('config.json', 'm.Q4_K_M.gguf'),
    /Qwen\/Other-GGUF has a model in GGUF, .*the name of the model that it was made from/,
  ],
  [
    'a name of one word',
    async () => 'mine',
    unknown,
    /neither a folder mine here nor a model mine/,
  ],
])('%s: the message names the command that repairs it', async (_, model, hub, message) => {
  const python = await pythonWith(whole, hub)
  expect(await trainWith('--python', python, '--model', await model())).toMatch(message)
})

it('a plan needs no Python', async () => {
  const output = await temporaryFolder()
  const args = ['train', 'local', config, '-o', output, '--dry-run', '--python', '/nowhere/python']
  const { code, stderr } = await osmosis([...args, '--model', 'some/model'], { PATH: '/nowhere' })
  expect(stderr).toMatch(/^Model +some\/model$/m)
  expect(stderr).toMatch(/^Trained +LoRA adapters of rank 16$/m)
  expect(code).toBe(0)
})

it.each([
  ['no solution', 1, 'error: No solution found when resolving script dependencies'],
  ['no connection', 2, 'error: Request failed after 3 retries in 8.6s'],
  ['no disk', 2, 'warning: slow\nerror: Failed to extract archive\n  cause: No space left'],
])('uv that fails with %s: the message says so, and what to do', async (_, code, said) => {
  const folder = await temporaryFolder()
  const uv = path.join(folder, 'uv')
  writeFileSync(uv, `#!/bin/sh\nprintf '%s\\n' '${said}' >&2\nexit ${code}\n`)
  chmodSync(uv, 0o755)
  const output = await temporaryFolder()
  const args = ['train', 'local', config, '-o', output]
  const { stderr } = await startOsmosis(args, { PATH: folder }).finished
  expect(stderr).toMatch(/^error: uv could not install .* or pass --python .*\. uv says:\n/)
  expect(stderr).toContain(said.slice(said.indexOf('error: ') + 7))
})
