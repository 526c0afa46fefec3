import { finished } from 'node:stream/promises'

import { errorMessage, OsmosisError } from '@osmosis/core'
import type { ReadOptions, SandboxLimits } from '@osmosis/core/sandbox'
import Docker from 'dockerode'

/** Options of `DockerSandbox.start`. */
export interface DockerSandboxOptions extends SandboxLimits, ReadOptions {
  /**
   * The image, such as `python:3.13-slim`; pulled where it is missing. It needs `sh`, `cat`, `chmod`, `mkdir` and `sleep`.
   */
  readonly image: string
  /**
   * Who runs commands. Default: the user of the image; 65534 where that is root. Where this user may not start a shell or write
   * to the folder, root is the default, without the capabilities of root.
   */
  readonly user?: string
  /** Label `osmosis.run` of the container, by which a clean-up finds it. Default: the id of this process. */
  readonly run?: string
  /** Memory of the container, without swap. Bytes; default 1 GiB. */
  readonly memoryBytes?: number
  /** Room on the disk, where the storage driver of Docker has a limit; elsewhere a warning. Bytes; default 10 GiB. */
  readonly diskBytes?: number
  /** Number of processes and threads at a time. Default 256. */
  readonly maxProcesses?: number
  /** Whether commands reach the network. Default: false. */
  readonly network?: boolean
  /** Variables beside those of the image. `HOME` is the folder of the sandbox. */
  readonly env?: Readonly<Record<string, string>>
  /** More of the container's `HostConfig`, as the Docker Engine API names it, such as `NanoCpus`. */
  readonly hostConfig?: Readonly<Record<string, unknown>>
  /** Ends the start when aborted, such as `ctx.signal`. */
  readonly signal?: AbortSignal | undefined
}

type ContainerSettings = DockerSandboxOptions &
  Required<Pick<DockerSandboxOptions, 'diskBytes' | 'memoryBytes' | 'maxProcesses'>> & {
    readonly folder: string
  }

/** Owns nothing. */
const plainUser = '65534:65534'

/** Does nothing until the container is removed, and waits for processes whose parents ended before them. */
const idle = 'while :; do sleep 3600 & wait; done'

/** Whether the storage driver can limit a container; found out by the first one, undefined until then. */
let hasDiskLimit: boolean | undefined

/**
 * The daemon that the environment names, else the local one.
 *
 * @throws OsmosisError with code `tool_failed` for an address that is none, and for certificates that cannot be read
 */
export function dockerDaemon(): Docker {
  try {
    return new Docker()
  } catch (error) {
    throw unreachable(error)
  }
}

/** Starts a container in which nothing runs yet. */
export async function startContainer(
  docker: Docker,
  settings: ContainerSettings,
): Promise<{ container: Docker.Container; user: string }> {
  const { image, signal } = settings
  signal?.throwIfAborted()
  const container = await create(docker, settings)
  try {
    signal?.throwIfAborted()
    await container.start()
    signal?.throwIfAborted()
    return { container, user: await chooseUser(docker, container, settings) }
  } catch (error) {
    await container.remove({ force: true }).catch(() => {})
    signal?.throwIfAborted()
    throw failed(`A container of ${image} cannot be started`, error)
  }
}

/** A user who is not root, where the image lets one start a shell and write to the folder. */
async function chooseUser(
  docker: Docker,
  container: Docker.Container,
  { user, image, folder }: ContainerSettings,
): Promise<string> {
  const { Config } = await docker.getImage(image).inspect()
  // Since version 29, Docker leaves out what is empty, and Podman may leave out all of it.
  const { User: ofImage = '' } = (Config ?? {}) as { readonly User?: string }
  const chosen = user ?? (/^(?:root|0)?(?::|$)/.test(ofImage) ? plainUser : ofImage)
  await exitCodeIn(container, '0', ['chmod', '777', folder])
  const isAllowed = (await exitCodeIn(container, chosen, ['/bin/sh', '-c', '[ -w . ]'])) === 0
  return isAllowed || user !== undefined ? chosen : '0'
}

async function exitCodeIn(
  container: Docker.Container,
  user: string,
  words: string[],
): Promise<number | null> {
  const exec = await container.exec({ Cmd: words, User: user, AttachStdout: true })
  const output = await exec.start({})
  await finished(output.resume())
  return (await exec.inspect()).ExitCode
}

async function create(docker: Docker, settings: ContainerSettings): Promise<Docker.Container> {
  try {
    return await createLimited(docker, settings)
  } catch (error) {
    if (statusOf(error) !== 404) throw creationError(error)
  }
  await pull(docker, settings)
  try {
    return await createLimited(docker, settings)
  } catch (error) {
    throw creationError(error)
  }
}

/**
 * With a limit on its disk, where the storage driver has one. The signal does not end the request, since the container would
 * be left behind: the caller has to remove it.
 */
async function createLimited(
  docker: Docker,
  settings: ContainerSettings,
): Promise<Docker.Container> {
  const options = optionsOf(settings)
  if (hasDiskLimit === false) return docker.createContainer(options)
  const size = String(settings.diskBytes)
  const HostConfig = { StorageOpt: { size }, ...options.HostConfig }
  try {
    const container = await docker.createContainer({ ...options, HostConfig })
    if (hasDiskLimit === undefined) {
      if (await ignoresDiskLimit(docker)) noteNoDiskLimit()
      else hasDiskLimit = true
    }
    return container
  } catch (error) {
    if (!/storage-opt|quota/i.test(errorMessage(error))) throw error
    noteNoDiskLimit()
    return docker.createContainer(options)
  }
}

/** The image store of containerd, the default since Docker 29, takes a limit and has none. */
async function ignoresDiskLimit(docker: Docker): Promise<boolean> {
  const { DriverStatus: facts } = (await docker.info().catch(() => ({}))) as {
    readonly DriverStatus?: readonly (readonly string[])[] | null
  }
  return facts?.flat().includes('io.containerd.snapshotter.v1') ?? false
}

function noteNoDiskLimit(): void {
  // Several containers may be the first.
  if (hasDiskLimit === false) return
  hasDiskLimit = false
  process.emitWarning(
    'The storage driver of Docker does not limit the disk of a container: a command can fill the disk of the machine.',
    'OsmosisWarning',
  )
}

function optionsOf(settings: ContainerSettings): Docker.ContainerCreateOptions {
  const { image, memoryBytes, folder } = settings
  return {
    Image: image,
    Entrypoint: ['/bin/sh', '-c', idle],
    Cmd: [],
    WorkingDir: folder,
    Env: Object.entries({ ...settings.env, HOME: folder }).map(
      ([name, value]) => `${name}=${value}`,
    ),
    // Root prepares the folder, and has no rights beyond that of a user who owns its files.
    User: '0',
    Labels: { 'osmosis.sandbox': 'true', 'osmosis.run': settings.run ?? String(process.pid) },
    HostConfig: {
      AutoRemove: true,
      Memory: memoryBytes,
      // As much as Memory: no swap.
      MemorySwap: memoryBytes,
      PidsLimit: settings.maxProcesses,
      CapDrop: ['ALL'],
      SecurityOpt: ['no-new-privileges'],
      ...(settings.network ? {} : { NetworkMode: 'none' }),
      ...settings.hostConfig,
    },
  }
}

async function pull(docker: Docker, { image, signal }: ContainerSettings): Promise<void> {
  // Without a tag, Docker would pull all of them.
  const name = /(?::[^/]+|@.+)$/.test(image) ? image : `${image}:latest`
  try {
    const progress = await docker.pull(name, signal ? { abortSignal: signal } : {})
    await new Promise<void>((resolve, reject) => {
      docker.modem.followProgress(progress, (error) => (error ? reject(error) : resolve()))
    })
    signal?.throwIfAborted()
  } catch (error) {
    signal?.throwIfAborted()
    throw failed(`The image ${image} is not here and cannot be pulled; build or load it`, error)
  }
}

/** Only what Docker itself says has a status. */
function creationError(error: unknown): OsmosisError {
  return statusOf(error) === undefined
    ? unreachable(error)
    : failed('Docker refused to create the container', error)
}

function unreachable(error: unknown): OsmosisError {
  return failed(
    'The Docker daemon cannot be reached; start it, or set DOCKER_HOST to where it listens',
    error,
  )
}

/** Whether an error of Docker says that the container has ended or was removed. */
export function isGone(error: unknown): boolean {
  return statusOf(error) === 404 || statusOf(error) === 409
}

function statusOf(error: unknown): number | undefined {
  return (error as { statusCode?: number }).statusCode
}

export function failed(what: string, cause: unknown): OsmosisError {
  return new OsmosisError('tool_failed', `${what}: ${errorMessage(cause).trim()}`, { cause })
}
