import { errorMessage, OsmosisError } from '@osmosis/core'
import type Docker from 'dockerode'

export interface ContainerSettings {
  readonly image: string
  readonly memoryBytes: number
  readonly maxProcesses: number
  readonly network: boolean
  readonly env: Readonly<Record<string, string>>
  readonly hostConfig: Readonly<Record<string, unknown>>
  readonly folder: string
  readonly signal: AbortSignal | undefined
}

/** Does nothing until the container is removed, and waits for processes whose parents ended before them. */
const idle = 'while :; do sleep 3600 & wait; done'

/** Starts a container in which nothing runs yet. */
export async function startContainer(
  docker: Docker,
  settings: ContainerSettings,
): Promise<Docker.Container> {
  const { image, signal } = settings
  signal?.throwIfAborted()
  const container = await create(docker, settings)
  try {
    signal?.throwIfAborted()
    await container.start()
    signal?.throwIfAborted()
    return container
  } catch (error) {
    await container.remove({ force: true }).catch(() => {})
    signal?.throwIfAborted()
    throw failed(`A container of ${image} cannot be started`, error)
  }
}

async function create(docker: Docker, settings: ContainerSettings): Promise<Docker.Container> {
  const { image, memoryBytes, folder } = settings
  const options: Docker.ContainerCreateOptions = {
    Image: image,
    Entrypoint: ['/bin/sh', '-c', idle],
    Cmd: [],
    WorkingDir: folder,
    Env: Object.entries(settings.env).map(([name, value]) => `${name}=${value}`),
    Labels: { 'osmosis.sandbox': 'true' },
    HostConfig: {
      AutoRemove: true,
      Memory: memoryBytes,
      // As much as Memory: no swap.
      MemorySwap: memoryBytes,
      PidsLimit: settings.maxProcesses,
      SecurityOpt: ['no-new-privileges'],
      ...(settings.network ? {} : { NetworkMode: 'none' }),
      ...settings.hostConfig,
    },
  }
  try {
    return await docker.createContainer(options)
  } catch (error) {
    if (statusOf(error) !== 404) throw unreachable(error)
  }
  await pull(docker, image)
  return docker.createContainer(options)
}

async function pull(docker: Docker, image: string): Promise<void> {
  // Without a tag, Docker would pull all of them.
  const name = /(?::[^/]+|@.+)$/.test(image) ? image : `${image}:latest`
  try {
    const progress = await docker.pull(name)
    await new Promise<void>((resolve, reject) => {
      docker.modem.followProgress(progress, (error) => (error ? reject(error) : resolve()))
    })
  } catch (error) {
    throw failed(`The image ${image} is not here and cannot be pulled; build or load it`, error)
  }
}

function unreachable(error: unknown): OsmosisError {
  const code = (error as { code?: unknown }).code
  if (code !== 'ENOENT' && code !== 'ECONNREFUSED' && code !== 'EACCES') {
    return failed('Docker refused to create the container', error)
  }
  return failed(
    'The Docker daemon cannot be reached; start it, or set DOCKER_HOST to where it listens',
    error,
  )
}

export function statusOf(error: unknown): number | undefined {
  return (error as { statusCode?: number }).statusCode
}

export function failed(what: string, cause: unknown): OsmosisError {
  return new OsmosisError('tool_failed', `${what}: ${errorMessage(cause).trim()}`, { cause })
}
