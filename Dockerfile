# One image for every unit: `counterfoil worker`, `counterfoil migrate`, `counterfoil register`, `counterfoil operation …`.
FROM python:3.11.13-slim-bookworm AS install
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python -m venv /opt/counterfoil
WORKDIR /source
COPY requirements/run.txt requirements/run.txt
RUN /opt/counterfoil/bin/pip install --require-hashes -r requirements/run.txt
COPY . .
RUN /opt/counterfoil/bin/pip install --no-deps .

FROM python:3.11.13-slim-bookworm
ENV PATH=/opt/counterfoil/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
# /adapters is importable (own adapters are mounted there, read only); /workspace is what file adapters may change;
# /state holds their locks and fences, and must be shared by all workers of one workspace.
RUN useradd --uid 10001 --create-home counterfoil \
    && mkdir /adapters /workspace /state \
    && chown counterfoil /workspace /state
ENV COUNTERFOIL_WORKSPACE_ROOT=/workspace COUNTERFOIL_STATE_DIR=/state
COPY --from=install /opt/counterfoil /opt/counterfoil
USER counterfoil
WORKDIR /adapters
STOPSIGNAL SIGTERM
ENTRYPOINT ["counterfoil"]
CMD ["--help"]
